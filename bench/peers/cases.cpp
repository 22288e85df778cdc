#include "cases.hpp"

namespace bench {

std::string Case::operation() const {
  const std::string direction = is_backward ? " backward" : " forward";
  switch (norm) {
    case Norm::layer:
      return "LayerNorm" + direction;
    case Norm::rms:
      return "RMSNorm" + direction;
    case Norm::batch_training:
      return "BatchNorm training" + direction;
    case Norm::batch_inference:
      return "BatchNorm inference";
  }
  return "";
}

std::string Case::shape_name() const {
  if (inner() == 1) return shape.name();
  std::string name;
  for (const Index extent : extents()) name += (name.empty() ? "(" : ", ") + std::to_string(extent);
  return name + ")";
}

std::vector<Index> Case::extents() const {
  if (inner() == 1) return {shape.rows, shape.features};
  return {shape.rows, shape.features, height, width};
}

Problem<float> Case::problem() const {
  Shape whole = shape;
  whole.features *= inner();
  Problem<float> p = Data<float>::problem(whole);
  p.features = shape.features;
  return p;
}

const std::vector<float>& running_variances() {
  static const std::vector<float> variances(65536, 0.9f);
  return variances;
}

std::vector<Case> table_cases() {
  std::vector<Case> cases;
  for (const Norm norm : {Norm::layer, Norm::rms}) {
    for (const bool is_backward : {false, true}) {
      for (const Shape& shape : shapes()) cases.push_back({norm, is_backward, shape});
    }
  }
  const Shape matrix{4096, 768}, images{32, 64};
  for (const bool is_backward : {false, true}) {
    cases.push_back({Norm::batch_training, is_backward, matrix});
    cases.push_back({Norm::batch_training, is_backward, images, 56, 56});
  }
  cases.push_back({Norm::batch_inference, false, matrix});
  cases.push_back({Norm::batch_inference, false, images, 56, 56});
  return cases;
}

std::vector<Case> size_cases() {
  std::vector<Case> cases;
  for (const Norm norm : {Norm::layer, Norm::rms, Norm::batch_training}) {
    for (const bool is_backward : {false, true}) {
      for (Index rows = 4; rows <= 16384; rows *= 2) cases.push_back({norm, is_backward, {rows, 768}});
    }
  }
  return cases;
}

}  // namespace bench
