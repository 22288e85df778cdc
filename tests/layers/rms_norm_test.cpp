// What is RMSNorm's alone. What it shares with LayerNorm: norm_layer_*_test.cpp.
#include "evenkeel/layers/rms_norm.hpp"

#include "layers/layer_test.hpp"

namespace evenkeel_test {
namespace {

using Layer = evenkeel::RMSNorm<float>;
using Matrix = RowMatrix<float>;

TEST(RMSNormLayer, HasNoBeta) {
  static_assert(!has_beta<Layer>);
  Layer layer(3);
  std::vector<std::string> paths;
  evenkeel::for_each_parameter(layer, [&](const std::string& path, auto&) { paths.push_back(path); });
  EXPECT_EQ(paths, std::vector<std::string>{"gamma"});
}

TEST(RMSNormLayer, SavesNoMean) {
  Layer layer(3);
  Layer::Saved saved;
  layer.forward(Matrix(Matrix::Ones(2, 3)), saved);
  EXPECT_TRUE(saved.statistics().mean.empty());
  EXPECT_EQ(saved.statistics().rstd.size(), 2u);
}

// B37, B43: the reference box of CASES.md.
TEST(RMSNormLayer, BackwardHasEveryTerm) {
  Matrix x(1, 4), dy(1, 4);
  x << 1, 2, 4, 9;
  dy << 1, 0, -2, 3;
  Layer layer(4, {.eps = 1e-6});
  layer.gamma().load(std::vector<float>{0.5f, 1, 2, -1}.data(), 4);
  Layer::Saved saved;
  layer.forward(x, saved);
  EXPECT_TRUE(
      within(values_of(layer.backward(dy, saved)), Reals{0.1815270L, 0.1650246L, -0.4620689L, 0.1485221L}, 4e-7L));
  EXPECT_TRUE(within(gradient_of(layer.gamma()), Reals{0.1980295L, 0, -1.5842360L, 5.3467966L}, 8e-7L));
}

}  // namespace
}  // namespace evenkeel_test
