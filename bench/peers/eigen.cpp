#include <Eigen/Core>

#include <memory>
#include <string>

#include "library.hpp"

/// Plain Eigen expressions: LayerNorm and RMSNorm of baselines.hpp, and BatchNorm.
namespace bench {
namespace {

/// BatchNorm of [examples][channels][inner], one [channels][inner] after another. Inner is 1, or Eigen::Dynamic.
template <int Inner>
class EigenBatchNorm {
 public:
  EigenBatchNorm(const Case& c, const Problem<float>& p)
      : p_(p), inner_(c.inner()), count_(static_cast<float>(p.rows * c.inner())) {}

  void forward_training() {
    mean_.setZero(p_.features);
    for (Index i = 0; i < p_.rows; ++i) add_sums(x(i), mean_);
    mean_ /= count_;
    rstd_.setZero(p_.features);
    for (Index i = 0; i < p_.rows; ++i) add_sums((x(i).colwise() - mean_).square(), rstd_);
    rstd_ = (rstd_ / count_ + static_cast<float>(p_.eps)).rsqrt();
    normalize();
  }

  void forward_inference() {
    mean_ = parameter(p_.beta);
    rstd_ = (parameter(running_variances().data()) + static_cast<float>(p_.eps)).rsqrt();
    normalize();
  }

  void backward() {
    Eigen::Map<Channels> dgamma(p_.dgamma, p_.features), dbeta(p_.dbeta, p_.features);
    dgamma.setZero();
    dbeta.setZero();
    for (Index i = 0; i < p_.rows; ++i) {
      add_sums(dy(i), dbeta);
      add_sums(dy(i) * ((x(i).colwise() - mean_).colwise() * rstd_), dgamma);
    }
    const Channels scale = parameter(p_.gamma) * rstd_, mean_g = dbeta / count_, slope = rstd_ * dgamma / count_;
    for (Index i = 0; i < p_.rows; ++i) {
      Block(p_.dx + offset(i), p_.features, inner_) =
          (dy(i).colwise() - mean_g - (x(i).colwise() - mean_).colwise() * slope).colwise() * scale;
    }
  }

 private:
  using Channels = Eigen::ArrayXf;
  using Array = Eigen::Array<float, Eigen::Dynamic, Inner, Inner == 1 ? Eigen::ColMajor : Eigen::RowMajor>;
  using Block = Eigen::Map<Array>;
  using ConstBlock = Eigen::Map<const Array>;

  Index offset(Index i) const { return i * p_.features * inner_; }
  ConstBlock x(Index i) const { return {p_.x + offset(i), p_.features, inner_}; }
  ConstBlock dy(Index i) const { return {p_.dy + offset(i), p_.features, inner_}; }
  Eigen::Map<const Channels> parameter(const float* values) const { return {values, p_.features}; }

  /// Adds the sum over inner, of each channel.
  template <class Expression, class Sums>
  static void add_sums(const Expression& block, Sums& sums) {
    if constexpr (Inner == 1) {
      sums += block.col(0);
    } else {
      sums += block.rowwise().sum();
    }
  }

  void normalize() {
    const Channels scale = parameter(p_.gamma) * rstd_;
    for (Index i = 0; i < p_.rows; ++i) {
      Block(p_.y + offset(i), p_.features, inner_) =
          ((x(i).colwise() - mean_).colwise() * scale).colwise() + parameter(p_.beta);
    }
  }

  Problem<float> p_;
  Index inner_;
  float count_;  // of values in each channel
  Channels mean_, rstd_;
};

template <int Inner>
Contender batch_norm(const Case& c, const Problem<float>& p) {
  auto norm = std::make_shared<EigenBatchNorm<Inner>>(c, p);
  if (c.norm == Norm::batch_inference) return contender(c, p, [=] { norm->forward_inference(); });
  if (!c.is_backward) return contender(c, p, [=] { norm->forward_training(); });
  norm->forward_training();
  return contender(c, p, [=] { norm->backward(); });
}

using Operation = void (*)(const Problem<float>&);

Contender row_norm(const Case& c, const Problem<float>& p, Operation forward, Operation backward) {
  if (!c.is_backward) return contender(c, p, [=] { forward(p); });
  forward(p);  // statistics
  return contender(c, p, [=] { backward(p); });
}

Contender make(const Case& c, const Problem<float>& p) {
  switch (c.norm) {
    case Norm::layer:
      return row_norm(c, p, eigen::layer_norm_forward<float>, eigen::layer_norm_backward<float>);
    case Norm::rms:
      return row_norm(c, p, eigen::rms_norm_forward<float>, eigen::rms_norm_backward<float>);
    default:
      return c.inner() == 1 ? batch_norm<1>(c, p) : batch_norm<Eigen::Dynamic>(c, p);
  }
}

}  // namespace

Library eigen_library() {
  const std::string version = std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                              std::to_string(EIGEN_MINOR_VERSION);
  return {"Eigen", version, make};
}

}  // namespace bench
