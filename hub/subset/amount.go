package subset

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// hundred is the whole of a percent.
const hundred = 100

// amount is a number of replicas, or a whole percent of a total.
type amount struct {
	value   int64
	percent bool
}

// parseAmount reads a number from 0 up, or a whole percent from 0% to 100%.
func parseAmount(v intstr.IntOrString) (amount, error) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return amount{}, fmt.Errorf("%d is negative; write a number from 0 up or a whole percent such as \"50%%\"", v.IntVal)
		}
		return amount{value: int64(v.IntVal)}, nil
	}
	digits, isPercent := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !isPercent || err != nil || n > hundred || strings.HasPrefix(digits, "+") {
		return amount{}, fmt.Errorf("%q is neither a number nor a whole percent from 0%% to 100%%; write for example 5 or \"50%%\"", v.StrVal)
	}
	return amount{value: int64(n), percent: true}, nil
}

// exact is the amount in hundredths of a replica.
func (a amount) exact(total int64) int64 {
	if a.percent {
		return a.value * total
	}
	return a.value * hundred
}

// rounded is the amount in replicas, a percent rounded half up.
func (a amount) rounded(total int64) int64 {
	return (a.exact(total) + hundred/2) / hundred
}
