package subset

import (
	"container/heap"
	"math/bits"
)

// Divide divides a number of pods over places by the divisor method of Webster (Sainte-Lagüe), ties in the order given:
// the next pod goes where replicas/(2*given+1) is largest. No share exceeds its replicas. The method hands out one pod
// after the other, so a smaller number is a prefix of a larger one: no share rises while the number falls. (Largest
// remainder lacks that: replicas 6, 6, 2 give 5, 5, 1 of 11 and 4, 4, 2 of 10.)
//
// A number above the sum gives every place all of its replicas; negative numbers count as 0.
func Divide(number int32, replicas []int32) []int32 {
	shares := make([]int32, len(replicas))
	var sum int64
	for _, n := range replicas {
		sum += int64(max(n, 0))
	}
	left := min(int64(number), sum)
	if left <= 0 {
		return shares
	}
	left -= headStart(shares, replicas, left, sum)
	q := &seats{replicas: replicas, shares: shares}
	for i, n := range replicas {
		if n > shares[i] {
			q.order = append(q.order, i)
		}
	}
	heap.Init(q)
	for ; left > 0; left-- {
		i := q.order[0]
		shares[i]++
		if shares[i] < replicas[i] {
			heap.Fix(q, 0)
		} else {
			heap.Pop(q)
		}
	}
	return shares
}

// headStart hands out at once every pod whose quotient replicas/(2*given+1) is above sum/(2*number-places). Those are
// the first ones in any case and never more than number, and at most two for each place are left to the loop.
func headStart(shares, replicas []int32, number, sum int64) int64 {
	factor := 2*number - int64(len(replicas))
	if factor <= 0 {
		return 0
	}
	var given int64
	for i, n := range replicas {
		if n <= 0 {
			continue
		}
		// The largest s with (2s-1)*sum < n*factor.
		hi, lo := bits.Mul64(uint64(n), uint64(factor))
		if lo == 0 {
			hi--
		}
		lo--
		odd, _ := bits.Div64(hi, lo, uint64(sum))    //nolint:gosec // above 0
		shares[i] = int32(min((odd+1)/2, uint64(n))) //nolint:gosec // at most n
		given += int64(shares[i])
	}
	return given
}

// seats is the heap of places that can take more, the next one first.
type seats struct {
	replicas, shares []int32
	order            []int
}

func (s *seats) Len() int      { return len(s.order) }
func (s *seats) Swap(a, b int) { s.order[a], s.order[b] = s.order[b], s.order[a] }

func (s *seats) Less(a, b int) bool {
	i, j := s.order[a], s.order[b]
	left := uint64(s.replicas[i]) * (2*uint64(s.shares[j]) + 1)  //nolint:gosec // none is negative
	right := uint64(s.replicas[j]) * (2*uint64(s.shares[i]) + 1) //nolint:gosec // none is negative
	if left != right {
		return left > right
	}
	return i < j
}

// Push is part of heap.Interface.
func (s *seats) Push(x any) { s.order = append(s.order, x.(int)) }

// Pop is part of heap.Interface.
func (s *seats) Pop() any {
	last := s.order[len(s.order)-1]
	s.order = s.order[:len(s.order)-1]
	return last
}
