#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#if !defined(__cpp_exceptions)
#include <cstdio>
#include <cstdlib>
#endif

#include "evenkeel/core/arch.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Throws Error(message); where exceptions are disabled, prints the message to stderr and aborts.
template <class Error>
[[noreturn]] inline void raise(const std::string& message) {
#if defined(__cpp_exceptions)
  throw Error(message);
#else
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
#endif
}

}  // namespace detail

/// A value, size or shape that a call cannot work with. The message is "evenkeel::<where>: <what it is>, expected
/// <what it must be> (<context>)".
[[noreturn]] inline void raise_invalid_argument(const char* where, const std::string& what) {
  detail::raise<std::invalid_argument>("evenkeel::" + std::string(where) + ": " + what);
}

/// The same, from a function that makes the text: for checks of every call, which the compiler puts in line where the
/// making of messages is not part of them.
template <class What>
requires std::is_invocable_r_v<std::string, What>
[[noreturn, gnu::cold, gnu::noinline]] void raise_invalid_argument(const char* where, const What& what) {
  raise_invalid_argument(where, std::string(what()));
}

/// A call that has come too early or too late.
[[noreturn]] inline void raise_logic_error(const char* where, const std::string& what) {
  detail::raise<std::logic_error>("evenkeel::" + std::string(where) + ": " + what);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
