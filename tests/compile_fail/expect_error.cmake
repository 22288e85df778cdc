# Runs a compiler that must fail and say something:  cmake -D EXPECTED=<regex> -D COMMAND=<list> -P expect_error.cmake
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles, expected an error that matches: ${EXPECTED}")
elseif(NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "fails, expected an error that matches: ${EXPECTED}\n${output}")
endif()
