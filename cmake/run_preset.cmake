# Configures, builds and tests one preset with the given compiler:
#   cmake -D PRESET=<name> -D COMPILER=<c++ compiler> -D BUILD_DIR=<folder> -P run_preset.cmake
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --preset ${PRESET} -B ${BUILD_DIR} -D CMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${BUILD_DIR} --target all all_verify_interface_header_sets)
run(${CMAKE_CTEST_COMMAND} --test-dir ${BUILD_DIR} --output-on-failure)
