# `cmake --install`: the programs, the public headers with Boost.PFR's beside them (a machine's own Boost may be older or absent), and
# one archive that needs nothing but glibc and libstdc++; found by find_package(rayo) and by pkg-config rayo.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# librayo.a: every library that a driver or worker holds, and the third parties' pieces they use, in one archive.
set(archive_parts rayo_base rayo_proto rayo_rpc rayo_object_store rayo_worker rayo_api)
set(own_archives)
foreach(part IN LISTS archive_parts)
  get_target_property(type ${part} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND own_archives $<TARGET_FILE:${part}>)
  endif()
endforeach()
set(archive ${CMAKE_BINARY_DIR}/lib/librayo.a)
add_custom_command(OUTPUT ${archive}
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/merge_archives.sh ${archive} ${own_archives} ${absl_archives} ${RAYO_LIB_protobuf-lite} ${RAYO_LIB_ssl}
          ${RAYO_LIB_crypto} ${RAYO_LIB_xxhash} ${RAYO_LIB_zstd} ${RAYO_LIB_boost_json} ${RAYO_LIB_boost_container}
          ${RAYO_LIB_boost_context}
  DEPENDS ${archive_parts} ${CMAKE_SOURCE_DIR}/cmake/merge_archives.sh COMMENT "Merging lib/librayo.a" VERBATIM)
add_custom_target(rayo_archive ALL DEPENDS ${archive})

install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/runtime/include/rayo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
find_path(RAYO_PFR_DIR boost/pfr/core.hpp REQUIRED)
install(FILES ${RAYO_PFR_DIR}/boost/pfr.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/boost)
install(DIRECTORY ${RAYO_PFR_DIR}/boost/pfr DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/boost)

foreach(program rayo rayo-head rayo-raylet rayo-keeper rayo-gpu-probe rayo-serve)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rayo)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/rayo-config.cmake.in ${CMAKE_BINARY_DIR}/rayo-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR NO_SET_AND_CHECK_MACRO
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rayo-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rayo-config.cmake ${CMAKE_BINARY_DIR}/rayo-config-version.cmake DESTINATION ${package_dir})
configure_file(${CMAKE_SOURCE_DIR}/cmake/rayo.pc.in ${CMAKE_BINARY_DIR}/rayo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rayo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
