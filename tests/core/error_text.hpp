// The text of errors: every message has a test on all of it.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <typeinfo>

namespace evenkeel_test {

/// What the exception says that `call` throws. It has to be an Error itself, not something derived from it: every
/// std::invalid_argument is a std::logic_error too.
template <class Error, class Call>
std::string error_text(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    EXPECT_TRUE(typeid(error) == typeid(Error)) << "threw a " << typeid(error).name() << ": " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// The same, or nothing if `call` does its work.
template <class Error, class Call>
std::string error_text_if_any(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace evenkeel_test
