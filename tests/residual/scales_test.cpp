// Tests of residual/scales.hpp: the papers' constants, to all digits that can be computed independently.
#include "evenkeel/residual/scales.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::DeepNormScales;
namespace deepnorm_scales = evenkeel::deepnorm_scales;

void expect_scales(const DeepNormScales& got, long double alpha, long double init_gain) {
  const long double ulps = 4 * std::numeric_limits<double>::epsilon();
  EXPECT_NEAR(static_cast<double>(got.alpha / alpha), 1, static_cast<double>(ulps));
  EXPECT_NEAR(static_cast<double>(got.init_gain / init_gain), 1, static_cast<double>(ulps));
}

/// v^(1/16), by square roots alone.
long double sixteenth_root(long double v) { return std::sqrt(std::sqrt(std::sqrt(std::sqrt(v)))); }
long double fourth_root(long double v) { return std::sqrt(std::sqrt(v)); }

TEST(DeepNormScales, AreThePapersOfOneStack) {  // B94
  for (const auto& of : {deepnorm_scales::encoder_only, deepnorm_scales::decoder_only}) {
    for (const int layers : {1, 2, 12, 18, 100, 1000}) {
      expect_scales(of(layers), fourth_root(2.0L * layers), 1 / fourth_root(8.0L * layers));
    }
    EXPECT_NEAR(of(1).alpha, 1.1892071, 5e-8);
    EXPECT_NEAR(of(1).init_gain, 0.5946036, 5e-8);
    EXPECT_NEAR(of(12).alpha, 2.2133638, 5e-8);
    EXPECT_NEAR(of(12).init_gain, 0.3194716, 5e-8);
    EXPECT_NEAR(of(1000).alpha, 6.6874030, 5e-8);
    EXPECT_NEAR(of(1000).init_gain, 0.1057371, 5e-8);
  }
}

TEST(DeepNormScales, AreThePapersOfEncoderAndDecoder) {  // B94
  for (const int n : {1, 6, 12, 500}) {
    for (const int m : {1, 6, 18, 500}) {
      const auto scales = deepnorm_scales::encoder_decoder(n, m);
      const long double root = sixteenth_root(std::pow(static_cast<long double>(n), 4) * m);
      expect_scales(scales.encoder, 0.81L * root, 0.87L / root);
      expect_scales(scales.decoder, fourth_root(3.0L * m), 1 / fourth_root(12.0L * m));
    }
  }
  const auto equal = deepnorm_scales::encoder_decoder(6, 6), more = deepnorm_scales::encoder_decoder(12, 6);
  EXPECT_NEAR(equal.encoder.alpha, 1.4179381, 5e-8);
  EXPECT_NEAR(equal.encoder.init_gain, 0.4969892, 5e-8);
  EXPECT_NEAR(equal.decoder.alpha, 2.0597671, 5e-8);
  EXPECT_NEAR(equal.decoder.init_gain, 0.3432945, 5e-8);
  EXPECT_NEAR(more.encoder.alpha, 1.6862, 5e-5);
  EXPECT_NEAR(more.encoder.init_gain, 0.4179, 5e-5);
  EXPECT_NEAR(more.decoder.alpha, 2.0598, 5e-5);
  EXPECT_NEAR(more.decoder.init_gain, 0.3433, 5e-5);
}

TEST(DeepNormScales, NeedALayer) {
  for (const int layers : {0, -3}) {
    const std::string text = " is " + std::to_string(layers) + ", expected at least 1";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { deepnorm_scales::encoder_only(layers); }),
              "evenkeel::deepnorm_scales::encoder_only: layers" + text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { deepnorm_scales::decoder_only(layers); }),
              "evenkeel::deepnorm_scales::decoder_only: layers" + text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { deepnorm_scales::encoder_decoder(layers, 6); }),
              "evenkeel::deepnorm_scales::encoder_decoder: encoder_layers" + text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { deepnorm_scales::encoder_decoder(6, layers); }),
              "evenkeel::deepnorm_scales::encoder_decoder: decoder_layers" + text);
  }
}

TEST(LayerScaleInitial, FallsWithDepth) {
  for (const int layers : {1, 12, 18}) EXPECT_EQ(evenkeel::layer_scale_initial(layers), 0.1);
  for (const int layers : {19, 24}) EXPECT_EQ(evenkeel::layer_scale_initial(layers), 1e-5);
  for (const int layers : {25, 36, 1000}) EXPECT_EQ(evenkeel::layer_scale_initial(layers), 1e-6);
  EXPECT_EQ(error_text<std::invalid_argument>([] { evenkeel::layer_scale_initial(0); }),
            "evenkeel::layer_scale_initial: layers is 0, expected at least 1");
}

TEST(LayerNormScale, IsOneByTheRootOfTheLayer) {
  EXPECT_EQ(evenkeel::layer_norm_scale(1), 1);
  EXPECT_EQ(evenkeel::layer_norm_scale(4), 0.5);
  EXPECT_EQ(evenkeel::layer_norm_scale(64), 0.125);
  EXPECT_EQ(error_text<std::invalid_argument>([] { evenkeel::layer_norm_scale(0); }),
            "evenkeel::layer_norm_scale: layer is 0, expected at least 1");
}

}  // namespace
}  // namespace evenkeel_test
