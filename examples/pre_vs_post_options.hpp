#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#ifndef EVENKEEL_EXAMPLE_TEXT
#define EVENKEEL_EXAMPLE_TEXT "LICENSE"
#endif

/// The command line of pre_vs_post.
struct Options {
  std::string text = EVENKEEL_EXAMPLE_TEXT, norm = "layer", placement, csv, plot;
  int depth = 48, width = 256, tokens = 128, seed = 1;
};

inline constexpr const char* usage =
    R"(usage: pre_vs_post [TEXT] [options]

  TEXT           file whose bytes are embedded (default: this project's LICENSE)
  --depth N      sublayers, each in a block (48, as in a transformer of 24 layers)
  --width N      features of a token (256)
  --tokens N     bytes taken from the text (128)
  --seed N       of embedding, weights and dy (1)
  --norm NAME    layer or rms (layer)
  --placement P  all, side by side, or one of pre, post, none, plain, sandwich, peri, res_post, skip, deep,
                 layer_scale, re_zero, skip_init, ln_scaling, drop_path, mix_ln, parallel (pre, post and none)
  --csv FILE     writes what is measured, for every block
  --plot FILE    draws the gradients as .png or .svg, with gnuplot
)";

inline int parse_number(const std::string& name, std::string_view value, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= least && number <= most) return number;
  throw std::invalid_argument(name + " is '" + std::string(value) + "', expected a whole number from " +
                              std::to_string(least) + " to " + std::to_string(most));
}

inline void set_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "--depth") {
    options.depth = parse_number(name, value, 1, 1000);
  } else if (name == "--width") {
    options.width = parse_number(name, value, 2, 4096);
  } else if (name == "--tokens") {
    options.tokens = parse_number(name, value, 1, 65536);
  } else if (name == "--seed") {
    options.seed = parse_number(name, value, 0, 2'000'000'000);
  } else if (name == "--norm") {
    options.norm = value;
  } else if (name == "--placement") {
    options.placement = value;
  } else if (name == "--csv") {
    options.csv = value;
  } else if (name == "--plot") {
    options.plot = value;
  } else {
    throw std::invalid_argument("unknown option '" + name + "', expected one of those that --help names");
  }
}

/// Throws std::invalid_argument for what cannot be understood; --help prints the usage and ends the program.
inline Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") std::exit(std::fputs(usage, stdout) < 0);
    if (!argument.starts_with("-")) {
      options.text = argument;
    } else if (i + 1 < argc) {
      set_option(options, argument, argv[++i]);
    } else {
      throw std::invalid_argument(argument + " comes last, expected a value after it (see --help)");
    }
  }
  if (options.norm != "layer" && options.norm != "rms") {
    throw std::invalid_argument("--norm is '" + options.norm + "', expected layer or rms");
  }
  if (!options.plot.empty() && !options.plot.ends_with(".png") && !options.plot.ends_with(".svg")) {
    throw std::invalid_argument("--plot is '" + options.plot + "', expected a file name that ends in .png or .svg");
  }
  return options;
}
