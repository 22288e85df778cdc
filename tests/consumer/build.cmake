# Configures, builds, runs and installs the consumer; its install must hold nothing of evenkeel:
#   cmake -D WAY=<find_package|add_subdirectory|fetch_content> -D BUILD_DIR=<folder> -D OPTIONS=<list> -P build.cmake
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${BUILD_DIR})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD_DIR} -D CONSUMER_WAY=${WAY} ${OPTIONS})
run(${CMAKE_COMMAND} --build ${BUILD_DIR})
run(${BUILD_DIR}/consumer)

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${BUILD_DIR}/prefix)
file(GLOB_RECURSE installed RELATIVE ${BUILD_DIR}/prefix ${BUILD_DIR}/prefix/*)
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "the consumer installs '${installed}', expected 'bin/consumer'")
endif()
