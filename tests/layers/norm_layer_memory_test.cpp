// What the layers LayerNorm, RMSNorm and BatchNorm allocate, and inference from several threads.
#include <thread>

#include "core/allocation_count.hpp"
#include "evenkeel/layers/batch_norm.hpp"
#include "layers/layer_test.hpp"

namespace evenkeel_test {
namespace {

template <class Layer>
class NormLayerMemory : public testing::Test {};
TYPED_TEST_SUITE(NormLayerMemory, Layers, LayerName);

TYPED_TEST(NormLayerMemory, NothingIsAllocatedWithAWorkspace) {
  using S = typename TypeParam::Scalar;
  for (const Index rows : {1, 5, 300}) {
    SCOPED_TRACE(rows);
    auto layer = with_random_parameters(TypeParam(9));
    const auto x = random_matrix<RowMatrix<S>>(rows, 9, 1), dy = random_matrix<RowMatrix<S>>(rows, 9, 2);
    RowMatrix<S> y(rows, 9), dx(rows, 9);
    typename TypeParam::Saved saved;
    std::vector<std::byte> memory(layer.workspace_bytes({rows, 9}));
    const Context context{.workspace = memory};
    const AllocationCount inference;
    layer.forward_into(x, y, context);
    EXPECT_EQ(inference.allocations(), 0);
    layer.forward_into(x, y, saved, context);
    layer.backward_into(dy, saved, dx, context);
    const AllocationCount second_step;
    layer.forward_into(x, y, saved, context);
    layer.backward_into(dy, saved, dx, context);
    layer.backward_into(dy, saved, evenkeel::add_to(dx), context);
    evenkeel::zero_gradients(layer);
    EXPECT_EQ(second_step.allocations(), 0);
  }
}

// Frozen or not, channels side by side in memory or not.
TEST(BatchNormMemory, NothingIsAllocatedWithAWorkspace) {
  for (const bool frozen : {false, true}) {
    for (const int axis : {0, 1}) {
      SCOPED_TRACE(axis);
      evenkeel::BatchNorm<float> layer(9, {.channel_axis = axis, .freeze_statistics = frozen});
      const Index rows = axis == 1 ? 40 : 9, columns = axis == 1 ? 9 : 40;
      const auto x = random_matrix<RowMatrix<float>>(rows, columns, 1),
                 dy = random_matrix<RowMatrix<float>>(rows, columns, 2);
      RowMatrix<float> y(rows, columns), dx(rows, columns);
      evenkeel::BatchNorm<float>::Saved saved;
      std::vector<std::byte> memory(layer.workspace_bytes({rows, columns}));
      const Context context{.workspace = memory};
      const AllocationCount inference;
      layer.forward_into(x, y, context);
      EXPECT_EQ(inference.allocations(), 0);
      layer.forward_into(x, y, saved, context);
      layer.backward_into(dy, saved, dx, context);
      const AllocationCount second_step;
      layer.forward_into(x, y, saved, context);
      layer.backward_into(dy, saved, dx, context);
      layer.backward_into(dy, saved, evenkeel::add_to(dx), context);
      evenkeel::zero_gradients(layer);
      EXPECT_EQ(second_step.allocations(), 0);
    }
  }
}

// Not of the right type, not of the right size: half a row too long, at an odd address.
TYPED_TEST(NormLayerMemory, TheWorkspaceMayLieAnywhere) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(9));
  const auto x = random_matrix<RowMatrix<S>>(5, 9, 1), dy = random_matrix<RowMatrix<S>>(5, 9, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  const auto dx = values_of(layer.backward(dy, saved));
  const auto dgamma = gradient_of(layer.gamma());
  for (std::size_t offset = 1; offset < 64; offset += 6) {
    std::vector<std::byte> memory(offset + layer.workspace_bytes({5, 9}), std::byte{0xFF});
    evenkeel::zero_gradients(layer);
    EXPECT_EQ(values_of(layer.backward(dy, saved, {.workspace = std::span(memory).subspan(offset)})), dx);
    EXPECT_EQ(gradient_of(layer.gamma()), dgamma);
  }
}

TYPED_TEST(NormLayerMemory, TheWorkspaceIsThatOfTheOp) {
  const TypeParam layer({3, 4}), first(4, {.axis = features_first});
  EXPECT_EQ(layer.workspace_bytes({2, 3, 4}), OpOf<TypeParam>::workspace_bytes({2, 12}));
  EXPECT_EQ(first.workspace_bytes({4, 50}), OpOf<TypeParam>::workspace_bytes({50, 4}));
}

// B88: no state is touched, so every thread gets the bits that one alone gets.
TYPED_TEST(NormLayerMemory, InferenceIsSafeFromSeveralThreads) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(65));
  const auto x = random_matrix<RowMatrix<S>>(50, 65, 1);
  const auto expected = values_of(layer.forward(x));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) count += !same_bits(values_of(layer.forward(x)), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TYPED_TEST(NormLayerMemory, EachThreadMayTrainALayerOfItsOwn) {
  using S = typename TypeParam::Scalar;
  const auto x = random_matrix<RowMatrix<S>>(50, 65, 1);
  const auto train = [&](TypeParam layer) {
    typename TypeParam::Saved saved;
    for (int step = 0; step < 20; ++step) {
      layer.forward(x, saved);
      layer.backward(x, saved);
    }
    return gradient_of(layer.gamma());
  };
  const auto expected = train(TypeParam(65));
  std::vector<std::vector<S>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = train(TypeParam(65)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_TRUE(same_bits(result, expected));
}

}  // namespace
}  // namespace evenkeel_test
