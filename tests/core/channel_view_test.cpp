// One number for each channel, wherever they lie.
#include "evenkeel/core/channel_view.hpp"

#include <array>
#include <span>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::ChannelView;
using evenkeel::Index;

template <class E>
std::vector<float> numbers(const ChannelView<E>& view) {
  std::vector<float> all;
  for (Index c = 0; c < view.size(); ++c) all.push_back(view[c]);
  return all;
}

TEST(ChannelView, IsMadeFromAnythingOfOneAxis) {
  const std::vector<float> expected{1, 2, 3};
  std::vector<float> vector = expected;
  std::array<float, 3> array{1, 2, 3};
  Eigen::Vector3f eigen(1, 2, 3);
  Eigen::Tensor<float, 1> tensor(3);
  tensor.setValues({1, 2, 3});
  EXPECT_EQ(numbers(ChannelView<float>(vector)), expected);
  EXPECT_EQ(numbers(ChannelView<const float>(expected)), expected);
  EXPECT_EQ(numbers(ChannelView<float>(std::span(array))), expected);
  EXPECT_EQ(numbers(ChannelView<float>(eigen)), expected);
  EXPECT_EQ(numbers(ChannelView<float>(tensor)), expected);
  EXPECT_EQ(numbers(ChannelView<float>(vector.data(), 2)), (std::vector<float>{1, 2}));
  EXPECT_EQ(numbers(ChannelView<const float>(Eigen::MatrixXf(eigen))), expected);
  EXPECT_TRUE(ChannelView<float>(vector).is_given());
  EXPECT_FALSE(ChannelView<float>().is_given());
  EXPECT_EQ(ChannelView<float>().size(), 0);
}

TEST(ChannelView, NumbersMayLieApart) {
  Eigen::MatrixXf matrix{{1, 4}, {2, 5}, {3, 6}};
  EXPECT_EQ(numbers(ChannelView<float>(matrix.row(1))), (std::vector<float>{2, 5}));
  EXPECT_EQ(numbers(ChannelView<float>(matrix.col(1))), (std::vector<float>{4, 5, 6}));
  const ChannelView<float> row(matrix.row(2));
  row[1] = 60;
  EXPECT_EQ(matrix(2, 1), 60);
}

TEST(ChannelView, GapsOfTwoKindsAreAnError) {
  Eigen::MatrixXf matrix(4, 3);
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { ChannelView<float>(matrix.topRows(2)); }),
      "evenkeel::ChannelView: v has stride 4 along axis 1, expected 2: axes that are taken together have no gaps (v "
      "has shape [2, 3])");
}

}  // namespace
}  // namespace evenkeel_test
