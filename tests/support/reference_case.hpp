// Reads the reference cases in tests/data; tests/data/README.md describes the files, their names and tolerances.
//
//   for (const ReferenceCase& reference : read_cases("torch", "layernorm_")) {
//     SCOPED_TRACE(reference.name);
//     const Tensor& y = reference.outputs.at("y");
//     EXPECT_TRUE(within(result, y.data, torch_tolerance<float>(y)));
//   }
//
// EVENKEEL_TEST_DATA, defined by the build, is the path of tests/data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

namespace evenkeel_test {

struct Tensor {
  std::string dtype;               // "float64", "float32", "bool" or "int64": what the numbers were
  std::vector<std::size_t> shape;  // empty for a single number
  std::vector<double> data;        // row-major
  double largest = 0;              // the largest finite |entry|
  double scale = 0;                // what rounding errors are measured by: the file's, or largest

  /// The data as float, exact for every input of every case, or as another type.
  template <class Scalar>
  std::vector<Scalar> as() const {
    return std::vector<Scalar>(data.begin(), data.end());
  }

  /// The product of the extents from `axis` on (negative: counted from the end): the features of a norm over them.
  std::size_t features(std::ptrdiff_t axis) const {
    std::size_t product = 1;
    for (auto extent = axis < 0 ? shape.end() + axis : shape.begin() + axis; extent != shape.end(); ++extent)
      product *= *extent;
    return product;
  }
};

struct ReferenceCase {
  std::string name;  // of the file, without .json
  std::string op, source;
  nlohmann::json attributes;  // reference.attributes.at("epsilon").get<double>()
  std::map<std::string, Tensor> inputs, outputs;
  std::map<std::string, Tensor> grads;  // of sum(y * grad_output), by name of the input; torch only
  Tensor grad_output;                   // torch only

  bool has_input(const std::string& input) const { return inputs.count(input) != 0; }
  double eps() const { return attributes.at("epsilon").get<double>(); }
};

/// A JSON number, or one of the strings "nan", "inf" and "-inf".
inline double number_from_json(const nlohmann::json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

inline Tensor tensor_from_json(const nlohmann::json& json) {
  Tensor tensor;
  tensor.dtype = json.at("dtype");
  tensor.shape = json.at("shape").get<std::vector<std::size_t>>();
  for (const auto& number : json.at("data")) {
    tensor.data.push_back(number_from_json(number));
    if (std::isfinite(tensor.data.back())) tensor.largest = std::max(tensor.largest, std::abs(tensor.data.back()));
  }
  tensor.scale = json.contains("scale") ? number_from_json(json.at("scale")) : tensor.largest;
  return tensor;
}

inline std::map<std::string, Tensor> tensors_from_json(const nlohmann::json& json) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : json.items()) tensors[name] = tensor_from_json(tensor);
  return tensors;
}

inline ReferenceCase read_case(const std::filesystem::path& path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  ReferenceCase reference;
  reference.name = path.stem().string();
  reference.op = json.at("op");
  reference.source = json.at("source");
  reference.attributes = json.at("attributes");
  reference.inputs = tensors_from_json(json.at("inputs"));
  reference.outputs = tensors_from_json(json.at("outputs"));
  if (json.contains("grads")) {
    reference.grads = tensors_from_json(json.at("grads"));
    reference.grad_output = tensor_from_json(json.at("grad_output"));
  }
  return reference;
}

/// Every case of tests/data/<folder> whose name starts with `prefix`, in order of name; throws if there is none, so
/// that a loop over the cases cannot pass by doing nothing.
inline std::vector<ReferenceCase> read_cases(const std::string& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(EVENKEEL_TEST_DATA) / folder))
    if (entry.path().filename().string().starts_with(prefix)) paths.push_back(entry.path());
  if (paths.empty()) throw std::runtime_error("no reference case " + folder + "/" + prefix + "*");
  std::sort(paths.begin(), paths.end());
  std::vector<ReferenceCase> cases;
  for (const auto& path : paths) cases.push_back(read_case(path));
  return cases;
}

/// The absolute tolerance for a tensor of a torch case. For float, `k` is 32 for norms and single blocks, 64 for
/// encoder layers and stacks.
template <class Scalar>
double torch_tolerance(const Tensor& expected, double k = 32) {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>);
  const double unit_roundoff = static_cast<double>(std::numeric_limits<Scalar>::epsilon()) / 2;
  if constexpr (std::is_same_v<Scalar, float>) return k * unit_roundoff * expected.scale;
  return 1e-12 * expected.largest + 32 * unit_roundoff * expected.scale;
}

/// The absolute tolerance for a tensor of an ONNX case, whose stored float32 numbers are themselves off by 1e-7.
inline double onnx_tolerance(const Tensor& expected) { return 1e-5 * expected.largest; }

}  // namespace evenkeel_test
