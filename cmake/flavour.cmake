# What a preset means: compiler flags, the linker, and what a flavour leaves out.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# x86-64-v2 and never the build machine's own CPU: the same binary runs on every node, and AMX is not trusted.
add_compile_options(-march=x86-64-v2 -mtune=generic -ffunction-sections -fdata-sections -fno-omit-frame-pointer
                    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wno-error=deprecated-declarations
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wno-missing-field-initializers)
add_link_options(-Wl,--gc-sections)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # ccache finds objects that use precompiled headers only with it.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  # g++ 12 reports these falsely inside optimised standard containers.
  add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds -Wno-error=restrict
                      -Wno-error=dangling-pointer -Wno-error=free-nonheap-object -Wno-error=stringop-overread)
  add_link_options(-fuse-ld=mold)
endif()

# Of the unit tests' own files: what is tested is optimized, and without it they compile in 0.6 of the time.
set(RAYO_TEST_OPTIONS "")
if(RAYO_FLAVOUR STREQUAL "release")
  add_compile_options(-O2)
  set(RAYO_TEST_OPTIONS -O0)
elseif(RAYO_FLAVOUR STREQUAL "debug")
  add_compile_options(-O0 -g)
elseif(RAYO_FLAVOUR STREQUAL "asan")
  # Not optimized: compiles in 0.6 of -O1's time, and UBSan sees what an optimizer would remove.
  add_compile_options(-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-sanitize=vptr)
  add_link_options(-fsanitize=address,undefined)
elseif(RAYO_FLAVOUR STREQUAL "tsan")
  add_compile_options(-O1 -g1 -fsanitize=thread -Wno-tsan)
  set(RAYO_TEST_OPTIONS -O0)
  add_link_options(-fsanitize=thread)
elseif(RAYO_FLAVOUR STREQUAL "fuzz")
  add_compile_options(-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-sanitize=vptr
                      -Wno-unused-command-line-argument)
  add_link_options(-fsanitize=address,undefined)
else()
  message(FATAL_ERROR "RAYO_FLAVOUR is '${RAYO_FLAVOUR}': release, debug, asan, tsan or fuzz")
endif()

# What holds gRPC is left out where the sanitizer would need gRPC itself instrumented.
if(RAYO_FLAVOUR STREQUAL "tsan" OR RAYO_FLAVOUR STREQUAL "fuzz")
  set(RAYO_WITH_GRPC OFF)
else()
  set(RAYO_WITH_GRPC ON)
endif()

set(RAYO_HAVE_CUDA OFF)
if(RAYO_CUDA STREQUAL "AUTO")
  find_program(RAYO_NVCC nvcc)
  if(RAYO_NVCC)
    set(RAYO_HAVE_CUDA ON)
  endif()
elseif(RAYO_CUDA)
  set(RAYO_HAVE_CUDA ON)
endif()

# llama.cpp is 3 minutes of compilation and is not instrumented: in release only.
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/llama_version llama_version)  # SHA-256 of it: cmake/deps.sh
set(llama_archive ${CMAKE_SOURCE_DIR}/build/deps/llama_cpp_python-${llama_version}.tar.gz)
set(RAYO_HAVE_LLM OFF)
if(RAYO_FLAVOUR STREQUAL "release")
  if(RAYO_LLM STREQUAL "AUTO")
    if(EXISTS ${llama_archive})
      set(RAYO_HAVE_LLM ON)
    endif()
  elseif(RAYO_LLM)
    set(RAYO_HAVE_LLM ON)
  endif()
endif()
