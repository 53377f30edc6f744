// Elementary functions in double, from fixed polynomials: the libm of one machine differs from another's in the last bit, and such
// a bit would end up in a token. Pure functions, any thread. Built with -ffp-contract=off.
#pragma once

namespace troupe::kernels {

/// Natural logarithm of a normal x > 0; relative error about 3e-16.
double fixed_log(double x);
/// e^x for |x| < 700; relative error about 1e-15.
double fixed_exp(double x);
/// Sine and cosine of 0 <= x < 1.6e6 (pi / 2 in three parts, as in fdlibm); absolute error about 1e-15.
void fixed_sin_cos(double x, double& sine, double& cosine);

}  // namespace troupe::kernels
