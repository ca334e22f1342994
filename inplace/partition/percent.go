package partition

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxLength is the length the CRDs allow for an int-or-string.
const maxLength = 16

// Percent is an exact, non-negative percent. The zero value is 0%.
type Percent struct {
	// The percent is units / 10^digits.
	units  int64
	digits int
}

// ParsePercent reads "25%" or "99.99%": digits, an optional fraction, a percent sign.
func ParsePercent(text string) (Percent, error) {
	if text == "" {
		return Percent{}, errors.New(`is empty: write a number such as 5 or a percent such as "50%"`)
	}
	if len(text) > maxLength {
		return Percent{}, fmt.Errorf("%q is longer than %d characters: write a percent such as \"50%%\"", text[:maxLength]+"...", maxLength)
	}
	body, ok := strings.CutSuffix(text, "%")
	if !ok {
		return Percent{}, fmt.Errorf("%q is text without a percent sign: write a number such as 5 (no quotes) or a percent such as \"50%%\"", text)
	}
	whole, fraction, dotted := strings.Cut(body, ".")
	if !allDigits(whole) || (dotted && !allDigits(fraction)) {
		return Percent{}, fmt.Errorf("%q is not a percent: write digits and a percent sign, such as \"50%%\" or \"99.5%%\"", text)
	}
	units := int64(0)
	for _, d := range whole + fraction {
		units = units*10 + int64(d-'0')
	}
	return Percent{units: units, digits: len(fraction)}, nil
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Full reports whether it is 100% or more.
func (p Percent) Full() bool {
	return big.NewInt(p.units).Cmp(scale(p.digits+2)) >= 0
}

// Whole reports whether it has no fraction.
func (p Percent) Whole() bool {
	return new(big.Int).Rem(big.NewInt(p.units), scale(p.digits)).Sign() == 0
}

// Up is the percent of n, rounded up.
func (p Percent) Up(n int32) int32 {
	quotient, rest := p.of(n)
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return clampInt32(quotient)
}

// Down is the percent of n, rounded down.
func (p Percent) Down(n int32) int32 {
	quotient, _ := p.of(n)
	return clampInt32(quotient)
}

// HalfUp is the percent of n, rounded to the nearest, halves up.
func (p Percent) HalfUp(n int32) int32 {
	quotient, rest := p.of(n)
	if rest.Lsh(rest, 1).Cmp(scale(p.digits+2)) >= 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return clampInt32(quotient)
}

// of divides units*n by 10^(digits+2).
func (p Percent) of(n int32) (quotient, rest *big.Int) {
	product := new(big.Int).Mul(big.NewInt(p.units), big.NewInt(int64(max(n, 0))))
	return new(big.Int).QuoRem(product, scale(p.digits+2), new(big.Int))
}

func scale(digits int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
}

func clampInt32(v *big.Int) int32 {
	const most = 1<<31 - 1
	if !v.IsInt64() || v.Int64() > most {
		return most
	}
	return int32(v.Int64()) //nolint:gosec // bounded on both sides
}

// read returns the plain number that v holds, or its percent.
func read(v *intstr.IntOrString) (number int32, percent *Percent, err error) {
	switch v.Type {
	case intstr.Int:
		if v.IntVal < 0 {
			return 0, nil, fmt.Errorf("%d is negative: write 0 or more", v.IntVal)
		}
		return v.IntVal, nil, nil
	case intstr.String:
		p, err := ParsePercent(v.StrVal)
		if err != nil {
			return 0, nil, err
		}
		return 0, &p, nil
	default:
		return 0, nil, fmt.Errorf("%q is neither a number nor text", v.String())
	}
}
