// Tests that nothing is allocated where a workspace is given: in inference from the first call, in training and
// backward from the second call of a shape.
//
// Every malloc is counted, Eigen's too, which does not use operator new; with a sanitizer, which has a malloc of its
// own, or without glibc, only operator new. The shapes are small: Eigen packs the matrices of a product into memory on
// the stack only if a packed panel is not above 128 KiB (EIGEN_STACK_ALLOCATION_LIMIT). A product of one row packs
// nothing.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "evenkeel/blocks/gpt2.hpp"
#include "evenkeel/blocks/llama.hpp"
#include "evenkeel/blocks/parallel_block.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/blocks/two_norm_parallel_block.hpp"
#include "evenkeel/layers/batch_norm.hpp"
#include "evenkeel/layers/group_norm.hpp"
#include "evenkeel/layers/instance_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/ops/add_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "support/random.hpp"

namespace {
thread_local bool is_counting = false;
thread_local int allocations = 0;

void count_allocation() {
  if (is_counting) ++allocations;
}
}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define EVENKEEL_TEST_HAS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVENKEEL_TEST_HAS_SANITIZER
#endif

#if defined(__GLIBC__) && !defined(EVENKEEL_TEST_HAS_SANITIZER)
constexpr bool counts_malloc = true;
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) {
  count_allocation();
  return __libc_malloc(size);
}
#else
constexpr bool counts_malloc = false;
void* operator new(std::size_t size) {
  count_allocation();
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return ::operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;
using LayerNorm = evenkeel::LayerNorm<float>;
using FeedForward = evenkeel::FeedForward<float>;
using Block = evenkeel::Residual<LayerNorm, FeedForward>;
using Stack = evenkeel::Stack<LayerNorm, FeedForward>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index d_model = 24, d_ff = 48;

template <class Call>
int allocations_of(const Call& call) {
  allocations = 0;
  is_counting = true;
  call();
  is_counting = false;
  return allocations;
}

template <class Model>
Model randomized(Model model) {
  std::uint64_t seed = 100;
  for_each_parameter(model, [&](const std::string&, Parameter<float>& parameter) {
    parameter.load(normal_vector<float>(static_cast<std::size_t>(parameter.size()), seed++).data(), parameter.size());
  });
  return model;
}

/// The tensors of one shape, and a workspace for a model.
struct Buffers {
  template <class Model>
  Buffers(Index rows, const Model& model, Index features = d_model)
      : x(Matrix::Random(rows, features)),
        dy(Matrix::Random(rows, features)),
        y(rows, features),
        dx(rows, features),
        memory(model.workspace_bytes(Shape{rows, features})) {}
  Context context() { return {.workspace = memory}; }

  Matrix x, dy, y, dx;
  std::vector<std::byte> memory;
};

template <class Model>
void expect_no_allocation(Model model) {
  Buffers small(3, model), large(9, model);
  for (Buffers* b : {&small, &large}) {
    const Context context = b->context();
    EXPECT_EQ(allocations_of([&] { std::as_const(model).forward_into(b->x, b->y, context); }), 0) << "inference";
  }
  typename Model::Saved saved;
  const auto train = [&](Buffers& b, const Context& context) {
    model.forward_into(b.x, b.y, saved, context);
    model.backward_into(b.dy, saved, b.dx, context);
  };
  EXPECT_GT(allocations_of([&] { train(large, large.context()); }), 0) << "the first call of a shape";
  for (Buffers* b : {&large, &large, &small, &small, &large}) {  // a smaller shape fits where a larger one was
    const Context context = b->context();
    EXPECT_EQ(allocations_of([&] { train(*b, context); }), 0) << b->x.rows() << " rows";
  }
}

TEST(Allocation, IsCounted) {
  std::vector<int> numbers;
  EXPECT_EQ(allocations_of([&] { numbers.resize(100); }), 1);
  Matrix matrix;
  EXPECT_EQ(allocations_of([&] { matrix.resize(10, 10); }), counts_malloc ? 1 : 0) << "Eigen's";
  const Block block = randomized<Block>(evenkeel::PreNorm(LayerNorm(d_model), FeedForward(d_model, d_ff)));
  Buffers b(3, block);
  EXPECT_GT(allocations_of([&] { block.forward_into(b.x, b.y); }), 0) << "without a workspace";
}

/// Of x [4, 6, 10], as the norms of channels and of any axis take it.
template <class Norm>
void expect_no_allocation_in_norm(Norm norm, const Context& options = {}) {
  const Shape shape{4, 6, 10};
  const auto x = normal_vector<float>(240, 1), dy = normal_vector<float>(240, 2);
  std::vector<float> y(240), dx(240);
  const evenkeel::TensorView<const float> in(x.data(), shape), upstream(dy.data(), shape);
  const evenkeel::TensorView<float> out(y.data(), shape), gradient(dx.data(), shape);
  std::vector<std::byte> memory(norm.workspace_bytes(shape));
  Context context = options;
  context.workspace = memory;
  EXPECT_EQ(allocations_of([&] { std::as_const(norm).forward_into(in, out, context); }), 0) << "inference";
  typename Norm::Saved saved;
  const auto train = [&] {
    norm.forward_into(in, out, saved, context);
    norm.backward_into(upstream, saved, gradient, context);
  };
  train();
  EXPECT_EQ(allocations_of(train), 0) << "training";
}

TEST(Allocation, DoesNotHappenInNorms) {
  expect_no_allocation_in_norm(evenkeel::LayerNorm<float>(10));
  expect_no_allocation_in_norm(evenkeel::LayerNorm<float>(6, {.axis = 1}));
  expect_no_allocation_in_norm(evenkeel::RMSNorm<float>(4, {.axis = 0}));
  expect_no_allocation_in_norm(evenkeel::RMSNorm<float>({6, 10}));
  expect_no_allocation_in_norm(evenkeel::BatchNorm<float>(6));
  expect_no_allocation_in_norm(evenkeel::BatchNorm<float>(10, {.channel_axis = -1}));
  expect_no_allocation_in_norm(evenkeel::GroupNorm<float>(2, 6));
  expect_no_allocation_in_norm(evenkeel::InstanceNorm<float>(6));
}

TEST(Allocation, DoesNotHappenInFeedForward) { expect_no_allocation(randomized(FeedForward(d_model, d_ff))); }

TEST(Allocation, DoesNotHappenInABlockWithAnyCombinationOfNorms) {
  const LayerNorm norm(d_model);
  for (int slots = 0; slots < 16; ++slots) {
    SCOPED_TRACE(slots);
    evenkeel::ResidualNorms<LayerNorm> norms;
    int bit = 1;
    for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
      if (slots & bit) *place = norm;
      bit *= 2;
    }
    expect_no_allocation(randomized(Block(FeedForward(d_model, d_ff), norms, {.alpha = 1.5, .lambda = 0.5})));
  }
}

TEST(Allocation, DoesNotHappenInABlockWithALearnedLambdaAndAnInScale) {
  using Lambda = evenkeel::Lambda<float>;
  const LayerNorm norm(d_model);
  const FeedForward f(d_model, d_ff);
  for (const Lambda& lambda : {Lambda(0.5), Lambda::learned_scalar(), Lambda::learned_vector(d_model, 0.1)}) {
    expect_no_allocation(randomized(Block(f, {}, {.lambda = lambda, .in_scale = 0.5})));
    expect_no_allocation(randomized(Block(f, {.in = norm}, {.lambda = lambda, .in_scale = 0.5})));
    expect_no_allocation(randomized(Block(f, {norm, norm, norm, norm}, {.lambda = lambda, .in_scale = 0.5})));
  }
}

TEST(Allocation, DoesNotHappenInABlockThatDrops) {
  const LayerNorm norm(d_model);
  const FeedForward f(d_model, d_ff);
  for (const auto kind : {evenkeel::DropoutKind::per_element, evenkeel::DropoutKind::per_sample}) {
    const evenkeel::Dropout<float> drop(0.5, 1, "drop", kind);
    expect_no_allocation(randomized(Block(f, {.in = norm}, {.drop = drop})));
    expect_no_allocation(randomized(Block(
        f, {norm, norm, norm, norm}, {.lambda = evenkeel::Lambda<float>::learned_vector(d_model, 1), .drop = drop})));
  }
}

TEST(Allocation, DoesNotHappenInParallelBlocks) {
  const LayerNorm norm(d_model);
  const FeedForward f(d_model, d_ff);
  expect_no_allocation(randomized(evenkeel::ParallelBlock(norm, f, f)));
  expect_no_allocation(randomized(evenkeel::TwoNormParallelBlock(norm, f, norm, f)));
}

TEST(Allocation, DoesNotHappenInAStackOfMixedBlocks) {
  const LayerNorm norm(d_model);
  const FeedForward f(d_model, d_ff);
  const std::vector<Block> blocks = {evenkeel::PostNorm(norm, f), evenkeel::PlainResidual<LayerNorm, FeedForward>(f),
                                     Block(f, {.in = norm, .branch = norm}), evenkeel::PreNorm(norm, f)};
  expect_no_allocation(randomized(Stack(blocks)));
  expect_no_allocation(randomized(Stack(blocks, std::nullopt)));
}

TEST(Allocation, DoesNotHappenInATransformerNorWhereItDecodes) {
  const auto stack = randomized(evenkeel::gpt2<float>({.layers = 2, .d_model = d_model, .num_heads = 4, .d_ff = d_ff}));
  expect_no_allocation(stack);
  expect_no_allocation(randomized(
      evenkeel::llama<float>({.layers = 1, .d_model = d_model, .num_heads = 4, .num_kv_heads = 2, .d_ff = d_ff})));
  evenkeel::KeyValueCache<float> cache(stack.cache_settings(8));
  Buffers b(3, stack);
  const std::vector<std::uint8_t> valid = {1, 1, 1};
  Context context = b.context();
  context.cache = &cache;
  context.mask = valid;
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(allocations_of([&] { stack.forward_into(b.x, b.y, context); }), 0) << "call " << call;
  }
}

TEST(Allocation, DoesNotHappenForOneTokenOfAWideModel) {
  const Index wide = 256;  // the weights take 1 MiB
  const Stack stack({evenkeel::PreNorm(LayerNorm(wide), FeedForward(wide, 4 * wide))});
  Buffers b(1, stack, wide);
  const Context context = b.context();
  EXPECT_EQ(allocations_of([&] { stack.forward_into(b.x, b.y, context); }), 0);
}

void expect_no_allocation_in_the_norm_of_a_sum(const evenkeel::DropoutMask& drop) {
  const Index rows = 40;
  const Matrix x = Matrix::Random(rows, d_model), h = Matrix::Random(rows, d_model), dy = x - h;
  Matrix s(rows, d_model), y(rows, d_model), dx(rows, d_model), dh = Matrix::Zero(rows, d_model);
  std::vector<float> gamma(d_model, 1.5f), bias(d_model, 0.25f), lambdas(d_model, -0.5f);
  std::vector<float> dgamma(d_model), dbeta(d_model), dlambda(d_model), dbias(d_model);
  evenkeel::AddLayerNormOptions<float> options;
  options.sum.lambdas = lambdas, options.sum.bias = bias, options.sum.drop = drop, options.norm.gamma = gamma;
  std::vector<std::byte> memory(evenkeel::add_layer_norm_workspace_bytes<float>({rows, d_model}));
  const Context context{.workspace = memory};
  EXPECT_EQ(allocations_of([&] { evenkeel::add_layer_norm_into(x, h, s, y, options, context); }), 0) << "s and y";
  EXPECT_EQ(allocations_of([&] { evenkeel::add_layer_norm_into(x, h, y, options, context); }), 0) << "y alone";
  evenkeel::NormStatistics<float> saved;
  evenkeel::add_layer_norm_into(x, h, s, y, saved, options, context);
  const auto train = [&](const evenkeel::AddLayerNormGradients<float>& to) {
    evenkeel::add_layer_norm_into(x, h, s, y, saved, options, context);
    evenkeel::add_layer_norm_backward<float>({.dy = evenkeel::const_view(dy),
                                              .s = evenkeel::const_view(s),
                                              .ds = evenkeel::const_view(x),
                                              .h = evenkeel::const_view(h)},
                                             saved, options, to, context);
  };
  evenkeel::AddLayerNormGradients<float> to{
      .dx = dx, .dh = dh, .dgamma = dgamma, .dbeta = dbeta, .dlambda = dlambda, .dbias = dbias};
  EXPECT_EQ(allocations_of([&] { train(to); }), 0) << "gradients that are overwritten";
  to.dx = {}, to.dh = evenkeel::add_to(dh);
  EXPECT_EQ(allocations_of([&] { train(to); }), 0) << "gradients that are added to";
}

TEST(Allocation, DoesNotHappenInTheNormOfASum) {
  expect_no_allocation_in_the_norm_of_a_sum({});
  expect_no_allocation_in_the_norm_of_a_sum({0.3, {1}, 2});
  expect_no_allocation_in_the_norm_of_a_sum({0.3, {1}, 2, evenkeel::DropoutKind::per_sample});
}

}  // namespace
}  // namespace evenkeel_test
