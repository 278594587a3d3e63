# One library per folder; a wrong include fails the build (cmake/check_layers.py runs before any compilation).
find_program(RAYO_PYTHON3 NAMES /usr/bin/python3 python3 REQUIRED)
add_custom_target(check_layers ALL
  COMMAND ${RAYO_PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/check_layers.py ${CMAKE_SOURCE_DIR}
  COMMENT "Checking that includes point down" VERBATIM)

# Precompiled heavy headers, built once for each set and shared by every library of that set.
function(rayo_pch name)
  cmake_parse_arguments(P "" "" "HEADERS;DEPS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/pch/${name}.cc "// Holds the precompiled headers of the set '${name}'.\n")
  add_library(pch_${name} OBJECT ${CMAKE_BINARY_DIR}/pch/${name}.cc)
  target_link_libraries(pch_${name} PRIVATE ${P_DEPS})
  target_include_directories(pch_${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include ${CMAKE_BINARY_DIR})
  target_precompile_headers(pch_${name} PRIVATE ${P_HEADERS})
endfunction()

# rayo_library(NAME [PCH set] [DEPS ...] [EXCLUDE regex...]): the *.cc of the current folder.
function(rayo_library name)
  cmake_parse_arguments(L "" "PCH" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  foreach(pattern IN LISTS L_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  set(code ${sources})
  list(FILTER code INCLUDE REGEX "\\.cc$")
  if(code)
    add_library(rayo_${name} STATIC ${sources})
    set(scope PUBLIC)
    if(L_PCH)
      target_precompile_headers(rayo_${name} REUSE_FROM pch_${L_PCH})
    endif()
    add_dependencies(rayo_${name} check_layers)
  else()
    add_library(rayo_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(rayo_${name} ${scope} ${L_DEPS})
  target_include_directories(rayo_${name} ${scope} ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include ${CMAKE_BINARY_DIR})
endfunction()

# rayo_program(NAME [PCH set] SOURCES ... DEPS ...): an executable in build/PRESET/bin. Compiled with -fPIC and not with CMake's
# -fPIE, so that it can share the precompiled headers of the libraries.
function(rayo_program name)
  cmake_parse_arguments(P "" "PCH" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${P_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  if(P_PCH)
    target_precompile_headers(${name} REUSE_FROM pch_${P_PCH})
  endif()
  target_link_libraries(${name} PRIVATE ${P_DEPS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include ${CMAKE_BINARY_DIR})
  add_dependencies(${name} check_layers)
endfunction()
