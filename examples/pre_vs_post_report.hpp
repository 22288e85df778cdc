#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

/// What pre_vs_post has measured, as tables, sentences, a file and a plot.

struct Measures {
  double norm, rms, mean, cosine;
};

/// The stream that enters a block (or the output), compared with the embedded text, and the gradient at this place,
/// compared with dy.
struct Point {
  Measures stream, gradient;
};

/// One way to build the network, and its points: the input of every block, and the output.
struct Variant {
  std::string name, label, formula;
  std::vector<Point> points;
};

inline std::string format(const char* pattern, double value) {
  char text[32];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
/// A mean or a cosine.
inline std::string fixed(double value) {
  return format("%.2f", std::round(value * 100) / 100 + 0.0);  // + 0.0 makes 0.00 of -0.00
}
/// A norm or RMS, of whatever magnitude.
inline std::string size(double value) {
  return value == 0 || (value >= 0.01 && value < 1000) ? fixed(value) : format("%.0e", value);
}

// ---------------------------------------------------------------- tables

/// Some columns of a table, one for each variant.
struct Columns {
  std::string title;
  int width;
  std::string (*cell)(const Point&);
};

inline void print_right(int width, const std::string& text) { std::printf("%*s", width, text.c_str()); }

/// The title in the middle of a line over `width` characters.
inline std::string ruled(const std::string& title, int width) {
  const auto dashes = static_cast<std::size_t>(width) - title.size() - 2;
  return std::string(dashes / 2, '-') + ' ' + title + ' ' + std::string(dashes - dashes / 2, '-');
}

/// The blocks that tables have rows for: ten or less, from the first to the last, and the output.
inline std::vector<std::size_t> shown_points(std::size_t depth) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i + 1 < depth; i += (depth + 8) / 9) shown.push_back(i);
  shown.insert(shown.end(), {depth - 1, depth});
  return shown;
}

inline void print_row(const std::string& place, const std::vector<Columns>& columns, std::size_t variants,
                      const auto& cell) {
  print_right(8, place);
  for (const Columns& c : columns) {
    std::printf("  ");
    for (std::size_t v = 0; v < variants; ++v) print_right(c.width, cell(c, v));
  }
  std::printf("\n");
}

inline void print_table(const std::vector<Variant>& variants, std::vector<Columns> columns) {
  const std::size_t depth = variants.front().points.size() - 1;
  for (Columns& c : columns) {  // room for the title over one variant
    c.width = std::max(c.width, static_cast<int>((c.title.size() + 6) / variants.size()));
  }
  print_right(8, "");
  for (const Columns& c : columns) {
    std::printf("    %s", ruled(c.title, c.width * static_cast<int>(variants.size()) - 2).c_str());
  }
  std::printf("\n");
  print_row("block", columns, variants.size(), [&](const Columns&, std::size_t v) { return variants[v].label; });
  for (const std::size_t i : shown_points(depth)) {
    print_row(i < depth ? std::to_string(i + 1) : "output", columns, variants.size(),
              [&](const Columns& c, std::size_t v) { return c.cell(variants[v].points[i]); });
  }
  std::printf("\n");
}

inline void print_tables(const std::vector<Variant>& variants) {
  std::printf("Forward: the stream that enters a block, its cosine to the embedded text\n\n");
  print_table(variants, {{"RMS", 7, [](const Point& p) { return size(p.stream.rms); }},
                         {"mean", 7, [](const Point& p) { return fixed(p.stream.mean); }},
                         {"cosine", 7, [](const Point& p) { return fixed(p.stream.cosine); }}});
  std::printf("Backward: the gradient there, its cosine to dy at the output\n\n");
  print_table(variants, {{"norm", 7, [](const Point& p) { return size(p.gradient.norm); }},
                         {"cosine", 7, [](const Point& p) { return fixed(p.gradient.cosine); }}});
}

// ---------------------------------------------------------------- sentences

inline std::string change(double before, double after) {
  const double ratio = after / before;
  if (ratio > 0.8 && ratio < 1.25) return "stays near " + size(after);
  return (ratio > 1 ? "grows from " : "falls from ") + size(before) + " to " + size(after);
}

inline void print_summary(const Variant& v) {
  const Point &first = v.points.front(), &last = v.points[v.points.size() - 2];
  std::printf("%s: the gradient at block 1 is %.2g x that at block %zu; the stream's RMS %s, its cosine ends at %s.\n",
              v.name.c_str(), first.gradient.norm / last.gradient.norm, v.points.size() - 1,
              change(first.stream.rms, last.stream.rms).c_str(), fixed(last.stream.cosine).c_str());
}

inline void print_report(const std::vector<Variant>& variants) {
  for (const auto& [name, label, formula, points] : variants) {
    std::printf("%8s   %-12s %s\n", label.c_str(), name.c_str(), formula.c_str());
  }
  std::printf("\n");
  print_tables(variants);
  for (const Variant& v : variants) print_summary(v);
}

/// One line for each variant, where there are too many for columns side by side.
inline void print_comparison(const std::vector<Variant>& variants) {
  std::printf("%-40s%16s%10s%16s%10s\n", "", "stream: RMS", "cosine", "gradient: norm", "cosine");
  std::printf("%-40s%16s%10s%16s%10s\n", "", "first > last", "at last", "last > first", "at first");
  for (const Variant& v : variants) {
    const Point &first = v.points.front(), &last = v.points[v.points.size() - 2];
    const std::string rms = size(first.stream.rms) + " > " + size(last.stream.rms);
    const std::string norm = size(last.gradient.norm) + " > " + size(first.gradient.norm);
    std::printf("%-17s%-23s%16s%10s%16s%10s\n", v.name.c_str(), v.formula.c_str(), rms.c_str(),
                fixed(last.stream.cosine).c_str(), norm.c_str(), fixed(first.gradient.cosine).c_str());
  }
  std::printf(
      "\nAt the input of the first and of the last block; cosines to the embedded text, and to dy at the output,\n"
      "where the norm is 1.\n");
}

// ---------------------------------------------------------------- files

inline void write_csv(const std::string& path, const std::vector<Variant>& variants) {
  std::ofstream csv(path);
  csv << "variant,block,stream_rms,stream_mean,stream_cosine,gradient_norm,gradient_cosine\n";
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < v.points.size(); ++i) {
      const auto& [stream, gradient] = v.points[i];
      csv << v.name << ',' << i + 1 << ',' << stream.rms << ',' << stream.mean << ',' << stream.cosine << ','
          << gradient.norm << ',' << gradient.cosine << '\n';
    }
  }
  if (!csv.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

/// Lines of a block's number, its gradients' norms, their cosines to dy: as gnuplot reads them.
/// A variant of fewer blocks ends earlier.
inline std::string gradient_lines(const std::vector<Variant>& variants) {
  std::string lines;
  const auto value = [](const Variant& v, std::size_t i, double Measures::*measure) {
    return i + 1 < v.points.size() ? format(" %.6g", v.points[i].gradient.*measure) : std::string(" NaN");
  };
  for (std::size_t i = 0; i + 1 < variants.front().points.size(); ++i) {
    lines += std::to_string(i + 1);
    for (const Variant& v : variants) lines += value(v, i, &Measures::norm);
    for (const Variant& v : variants) lines += value(v, i, &Measures::cosine);
    lines += '\n';
  }
  return lines;
}

/// Columns [first, first + count) of the lines, against their block.
inline std::string plot_command(const std::vector<Variant>& variants, std::size_t first, std::size_t count) {
  std::string command;
  for (std::size_t v = 0; v < count; ++v) {
    command += (v == 0 ? "plot " : ", ") + ("$gradients using 1:" + std::to_string(first + v)) + " with lines title '" +
               variants[v].name + "  " + variants[v].formula + "'";
  }
  return command + '\n';
}

inline std::string plot_output(const std::string& path) {
  const char* terminal = path.ends_with(".svg") ? "svg size 1350,400 font 'sans,11' background 'white'"
                                                : "pngcairo size 1350,400 font 'sans,10'";
  return std::string("set terminal ") + terminal + "\nset output '" + path + "'\n";
}

inline constexpr const char* norm_settings = R"(
  set linetype 1 linecolor rgb '#0072B2' linewidth 2
  set linetype 2 linecolor rgb '#D55E00' linewidth 2
  set linetype 3 linecolor rgb '#555555' linewidth 2
  set multiplot layout 1,3
  set grid
  set xlabel 'block'
  set autoscale xfix
  set title 'Norm of the gradient'
  set ylabel 'norm of the gradient at the block'
  set logscale y
  set format y '10^{%T}'
  set key bottom right Left reverse samplen 2
)";

inline constexpr const char* closer_settings = R"(
  set title 'The same, closer'
  set format y '%g'
)";

inline constexpr const char* direction_settings = R"(
  set title 'Direction of the gradient'
  set ylabel 'cosine of the gradient to dy at the output'
  unset logscale y
  set yrange [-0.05:1.05]
  set key top left
)";

/// Three panels: all variants; all but the last, next to which the others look alike; directions.
inline std::string gnuplot_script(const std::string& path, const std::vector<Variant>& variants) {
  const std::size_t count = variants.size();
  return plot_output(path) + "$gradients << end\n" + gradient_lines(variants) + "end\n" +  //
         norm_settings + plot_command(variants, 2, count) +                                //
         closer_settings + plot_command(variants, 2, count - 1) +                          //
         direction_settings + plot_command(variants, 2 + count, count);
}

/// Errors    throws std::runtime_error if there is no gnuplot, or it fails.
inline void draw_plot(const std::string& path, const std::vector<Variant>& variants) {
  if (std::system("gnuplot --version > /dev/null 2>&1") != 0) {
    throw std::runtime_error("--plot takes gnuplot, which is not installed (apt-get install gnuplot-nox)");
  }
  std::FILE* gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) throw std::runtime_error("cannot start gnuplot");
  std::fputs(gnuplot_script(path, variants).c_str(), gnuplot);
  if (pclose(gnuplot) != 0) throw std::runtime_error("gnuplot could not draw '" + path + "'");
}
