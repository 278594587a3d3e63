# llama.cpp for LLM serving: libllama, ggml and what `common` knows of chat templates and grammars, from the source distribution that
# ./dev deps fetched. Static, so that rayo-serve stays one file; no server, no tools, no HTTP.
#
# ggml's CPU backend is built once for each named instruction set, and all of them are in every program: examples/llm_serving/engine
# chooses one at run time, after having tried it in a child. Never for the build machine's own CPU, never with AMX.
set(llama_root ${CMAKE_BINARY_DIR}/llama_cpp_python-${llama_version}/vendor/llama.cpp)
set(RAYO_LLM_MODEL ${CMAKE_SOURCE_DIR}/build/deps/models/SmolLM2-135M-Instruct.Q4_1.gguf)

# Unpacked once into the build tree: only the folders that are compiled here.
function(llama_unpack)
  if(EXISTS ${llama_root}/.unpacked)
    return()
  endif()
  message(STATUS "Unpacking llama.cpp from ${llama_archive}")
  set(prefix llama_cpp_python-${llama_version}/vendor/llama.cpp)
  set(patterns)
  foreach(folder include src common ggml/include ggml/src/ggml-cpu vendor/nlohmann vendor/sheredom)
    list(APPEND patterns ${prefix}/${folder}/*)
  endforeach()
  list(APPEND patterns ${prefix}/ggml/src/*.c ${prefix}/ggml/src/*.cpp ${prefix}/ggml/src/*.h ${prefix}/ggml/src/*.in ${prefix}/LICENSE)
  file(ARCHIVE_EXTRACT INPUT ${llama_archive} DESTINATION ${CMAKE_BINARY_DIR} PATTERNS ${patterns})
  set(GGML_VERSION 0.25.3)
  set(LLAMA_VERSION 0.5.0)
  set(GGML_BUILD_COMMIT pypi-${llama_version})
  set(LLAMA_BUILD_COMMIT pypi-${llama_version})
  set(LLAMA_BUILD_NUMBER 0)
  configure_file(${llama_root}/ggml/src/ggml-version.h.in ${llama_root}/ggml/src/ggml-version.h @ONLY)
  configure_file(${llama_root}/src/llama-version.h.in ${llama_root}/src/llama-version.h @ONLY)
  configure_file(${llama_root}/common/build-info.cpp.in ${llama_root}/common/build-info.cpp @ONLY)
  file(TOUCH ${llama_root}/.unpacked)
endfunction()
llama_unpack()

set(ggml_source ${llama_root}/ggml/src)
# Their code, their warnings: none are shown. NDEBUG as their own release builds have it; what computes is optimised more.
set(llama_options -w -O3 -DNDEBUG)
set(llama_definitions _GNU_SOURCE _XOPEN_SOURCE=600 GGML_SCHED_MAX_COPIES=1)

function(llama_library name type)
  add_library(${name} ${type} ${ARGN})
  target_compile_options(${name} PRIVATE ${llama_options})
  target_compile_definitions(${name} PRIVATE ${llama_definitions})
  target_include_directories(${name} PRIVATE ${ggml_source} ${llama_root}/ggml/include)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 17 C_STANDARD 11)
endfunction()

llama_library(ggml STATIC
  ${ggml_source}/ggml.c ${ggml_source}/ggml.cpp ${ggml_source}/ggml-alloc.c ${ggml_source}/ggml-backend.cpp
  ${ggml_source}/ggml-backend-meta.cpp ${ggml_source}/ggml-opt.cpp ${ggml_source}/ggml-threading.cpp ${ggml_source}/ggml-quants.c
  ${ggml_source}/gguf.cpp ${ggml_source}/ggml-backend-dl.cpp ${ggml_source}/ggml-backend-reg.cpp)
target_link_libraries(ggml PUBLIC Threads::Threads ${CMAKE_DL_LIBS} m)

# llama_cpu(NAME FLAGS...): the CPU backend for one instruction set as one object in which only ggml_backend_cpu_NAME_reg is visible.
# Joining dissolves COMDAT groups, so that no inline function of the standard library that was compiled for AVX-512 is ever taken by the
# rest of the program; a static initialiser in it would run on every CPU and fails the build.
function(llama_cpu name)
  set(cpu ${ggml_source}/ggml-cpu)
  llama_library(ggml_cpu_${name} OBJECT
    ${cpu}/ggml-cpu.c ${cpu}/ggml-cpu.cpp ${cpu}/repack.cpp ${cpu}/hbm.cpp ${cpu}/quants.c ${cpu}/traits.cpp ${cpu}/tiled/tiled.cpp
    ${cpu}/tiled/tiled-kernel.cpp ${cpu}/binary-ops.cpp ${cpu}/unary-ops.cpp ${cpu}/vec.cpp ${cpu}/ops.cpp ${cpu}/llamafile/sgemm.cpp
    ${cpu}/arch/x86/quants.c ${cpu}/arch/x86/repack.cpp)
  target_include_directories(ggml_cpu_${name} PRIVATE ${cpu})
  target_compile_definitions(ggml_cpu_${name} PRIVATE GGML_USE_LLAMAFILE GGML_USE_CPU_REPACK)
  target_compile_options(ggml_cpu_${name} PRIVATE ${ARGN} $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  set(joined ${CMAKE_BINARY_DIR}/lib/ggml_cpu_${name}.o)
  add_custom_command(OUTPUT ${joined}
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/join_objects.sh ${joined} ggml_backend_cpu_reg ggml_backend_cpu_${name}_reg
            $<TARGET_OBJECTS:ggml_cpu_${name}>
    DEPENDS ggml_cpu_${name} $<TARGET_OBJECTS:ggml_cpu_${name}> ${CMAKE_SOURCE_DIR}/cmake/join_objects.sh
    COMMAND_EXPAND_LISTS COMMENT "Joining ggml_cpu_${name}.o" VERBATIM)
  set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(llama_joined ${llama_joined} ${joined} PARENT_SCOPE)
endfunction()
llama_cpu(v2 -march=x86-64-v2)
llama_cpu(v3 -march=x86-64-v3)
llama_cpu(v4 -march=x86-64-v4 -mavx512vnni -mavx512bf16)
add_library(ggml_cpu STATIC ${llama_joined})
set_target_properties(ggml_cpu PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(ggml_cpu PUBLIC ggml)

# ggml's CUDA backend, only where it is asked for: 150 files of half a minute each. One architecture, and attention kernels for the one
# kind of cache that engines use.
if(RAYO_LLM_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES native)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT EXISTS ${ggml_source}/ggml-cuda/ggml-cuda.cu)
    file(ARCHIVE_EXTRACT INPUT ${llama_archive} DESTINATION ${CMAKE_BINARY_DIR}
         PATTERNS llama_cpp_python-${llama_version}/vendor/llama.cpp/ggml/src/ggml-cuda/*)
  endif()
  set(cuda ${ggml_source}/ggml-cuda)
  set(instances ${cuda}/template-instances)
  file(GLOB cuda_sources ${cuda}/*.cu ${instances}/fattn-tile*.cu ${instances}/fattn-mma*.cu ${instances}/mmq*.cu ${instances}/mmf*.cu)
  add_library(ggml_cuda STATIC ${cuda_sources} ${instances}/fattn-vec-instance-f16-f16.cu)
  target_include_directories(ggml_cuda PRIVATE ${ggml_source} ${llama_root}/ggml/include)
  target_compile_definitions(ggml_cuda PRIVATE ${llama_definitions} GGML_CUDA_USE_GRAPHS GGML_CUDA_FA_QUANTS="f16-f16")
  foreach(v q4_0 q4_1 q5_0 q5_1 q8_0 bf16 f16)
    foreach(k q4_0 q4_1 q5_0 q5_1 q8_0 bf16 f16)
      string(TOUPPER GGML_CUDA_FA_${k}_${v} combination)
      set(compiled 0)
      if("${k}-${v}" STREQUAL "f16-f16")
        set(compiled 1)
      endif()
      target_compile_definitions(ggml_cuda PRIVATE ${combination}=${compiled})
    endforeach()
  endforeach()
  # Not the project's own options, which nvcc does not take.
  set_target_properties(ggml_cuda PROPERTIES COMPILE_OPTIONS "-w;-O3;-use_fast_math;-extended-lambda;-Xcompiler=-fPIC" CUDA_STANDARD 17)
  target_link_libraries(ggml_cuda PUBLIC ggml CUDA::cudart_static CUDA::cublas CUDA::cuda_driver)
endif()

# What builds graphs runs once for a batch's shape: less optimisation, for a shorter build.
set(llama_options -w -O1 -DNDEBUG)
file(GLOB llama_models ${llama_root}/src/models/*.cpp)
llama_library(llama_models OBJECT ${llama_models})
target_include_directories(llama_models PRIVATE ${llama_root}/src ${llama_root}/include)
set_target_properties(llama_models PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)

set(llama_options -w -DNDEBUG)
file(GLOB llama_core ${llama_root}/src/*.cpp)
llama_library(llama STATIC ${llama_core} $<TARGET_OBJECTS:llama_models>)
target_include_directories(llama PRIVATE ${llama_root}/src ${llama_root}/include)
target_link_libraries(llama PUBLIC ggml)

# Chat templates (Jinja), JSON schema to grammar, tool calls out of an answer; llama_glue is here because the first needs it to link.
# Most of their time goes into the same headers, so groups are compiled as one file; Jinja's cannot be joined.
file(GLOB llama_parsers ${llama_root}/common/parsers/*.cpp)
set(llama_chat)
foreach(file chat chat-auto-parser-generator chat-auto-parser-helpers chat-diff-analyzer chat-peg-parser json-schema
             json-schema-to-grammar peg-parser trie unicode)
  list(APPEND llama_chat ${llama_root}/common/${file}.cpp)
endforeach()
llama_library(llama_chat STATIC ${llama_parsers} ${llama_chat} ${llama_root}/common/json.cpp)
set_source_files_properties(${llama_parsers} PROPERTIES UNITY_GROUP parsers)
set_source_files_properties(${llama_chat} PROPERTIES UNITY_GROUP chat)
set_target_properties(llama_chat PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)

set(llama_options -w -O1 -DNDEBUG)
file(GLOB llama_jinja ${llama_root}/common/jinja/*.cpp)
llama_library(llama_jinja STATIC ${llama_jinja})
set(llama_glue)
foreach(file build-info common fit llguidance log ngram-cache ngram-map ngram-mod reasoning-budget sampling speculative)
  list(APPEND llama_glue ${llama_root}/common/${file}.cpp)
endforeach()
llama_library(llama_glue STATIC ${llama_glue})
set_target_properties(llama_glue PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
foreach(library llama_chat llama_jinja llama_glue)
  target_include_directories(${library} PRIVATE ${llama_root}/common ${llama_root}/vendor ${llama_root}/include)
  target_link_libraries(${library} PUBLIC llama)
endforeach()
target_link_libraries(llama_chat PUBLIC llama_jinja llama_glue)
target_link_libraries(llama_jinja PUBLIC llama_chat)
target_link_libraries(llama_glue PUBLIC llama_chat)

# What includes their headers: as a system's, so that their warnings are not ours.
add_library(llama_headers INTERFACE)
target_include_directories(llama_headers SYSTEM INTERFACE ${llama_root}/ggml/include ${llama_root}/include ${llama_root}/common)
