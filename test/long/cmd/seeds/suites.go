package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// suite is one or more tests of a package that tell stories by seed.
type suite struct {
	// pkg is the folder below the root, tests the names, as a part of a regular expression.
	pkg, tests string
	// each is for how many of the seeds asked for one is told here: stories of a whole fleet are that much longer.
	each uint64
	// rapid: the tests are properties of the library rapid, which has flags of its own.
	rapid bool
}

func suites() []suite {
	return []suite{
		{pkg: "inplace/plan", tests: "TestRandomReleases", each: 1},
		{pkg: "inplace/plan", tests: "TestPriorityAndScatter", each: 1, rapid: true},
		{pkg: "inplace/step", tests: "TestHooksEnd", each: 1, rapid: true},
		{pkg: "inplace/hooks", tests: "TestEveryStateCanBeLeft", each: 1, rapid: true},
		{pkg: "inplace/order", tests: "TestB097|TestScatterLosesNobody", each: 1, rapid: true},
		{pkg: "inplace/partition", tests: "TestPercentProperties", each: 1, rapid: true},
		{pkg: "inplace/revision", tests: "TestCanonicalProperties", each: 1, rapid: true},
		{pkg: "member/cloneset/plan", tests: "TestRandomStories", each: 1},
		{pkg: "member/cloneset/plan", tests: "TestScaleKeepsItsLimits", each: 1, rapid: true},
		{pkg: "member/statefulset/plan", tests: "TestRandomStories", each: 1},
		{
			pkg: "member/statefulset/plan", each: 1, rapid: true,
			tests: "TestAHoldLeaksNothing|TestMonotone|TestOrdinalsAreWhatCountingGives|TestTheOrderOfTheObservationDecidesNothing|TestWhatAnyDecisionKeeps",
		},
		{pkg: "member/cloneset/simulation", tests: "TestRandomStories", each: 1},
		{pkg: "member/cloneset/simulation", tests: "TestRandomStoriesInOrder", each: 1},
		{
			pkg: "hub/subset", each: 1, rapid: true,
			tests: "TestAdaptiveProperties|TestAllocateProperties|TestDivideByHand|TestDivideProperties|TestMoves|TestN1|TestReservedProperties|TestSpecifiedPermuted",
		},
		{pkg: "hub/united/plan", tests: "TestReleases", each: 20},
		{pkg: "hub/united/plan", tests: "TestSelectedStories", each: 20},
		{pkg: "hub/united/plan", tests: "TestNothingIsTakenAwayEarly", each: 20},
		{pkg: "hub/united/plan", tests: "TestAdaptiveReleases", each: 100},
		{pkg: "hub/united/plan", tests: "TestAdaptiveSelectedStories", each: 100},
		{pkg: "hub/united/plan", tests: "TestTravelProperties", each: 20, rapid: true},
		{pkg: "hub/united/plan", tests: "TestNothingThatIsStoredOrToldMakesAPanic", each: 20, rapid: true},
		{pkg: "hub/travel/plan", tests: "TestStories", each: 1, rapid: true},
		{pkg: "hub/check", tests: "TestEveryQuestionEnds", each: 1, rapid: true},
		{pkg: "hub/cluster", tests: "TestClocksThatDisagreeRenewInTime", each: 1, rapid: true},
		{pkg: "hub/clusterapi/plan", tests: "TestMemberName", each: 1, rapid: true},
		{pkg: "propagation/changeset", tests: "TestNeverTouchesOthers|TestSettles", each: 1, rapid: true},
		{pkg: "propagation/content", tests: "TestPrepareProperties", each: 1, rapid: true},
		{pkg: "propagation/feedback", tests: "TestDerivedUpdatedReadyIsNeverTooMuch", each: 1, rapid: true},
		{pkg: "propagation/render", tests: "TestB121|TestIntent|TestPercentBecomesNumberRoundedTowardsOld|TestPercentPartition", each: 1, rapid: true},
		{pkg: "propagation/clusters", tests: "TestBackoffStaysInItsBounds", each: 1, rapid: true},
		{pkg: "propagation/outbox", tests: "TestSharedContentProperties", each: 1, rapid: true},
	}
}

func (s suite) String() string { return s.pkg + " " + s.tests }

// span is the seeds from, and up to, but without, to.
type span struct{ from, to uint64 }

func (s span) len() uint64 { return s.to - s.from }

// args and env make the test binary tell a span.
func (s suite) args(at span, timeout time.Duration) []string {
	args := []string{"-test.run", "^(" + s.tests + ")$", "-test.timeout", timeout.String()}
	if s.rapid {
		args = append(args, "-rapid.nofailfile", fmt.Sprintf("-rapid.seed=%d", spread(at.from)), fmt.Sprintf("-rapid.checks=%d", at.len()))
	}
	return args
}

// spread is a seed for rapid to begin a slice with. It goes on from there by steps of 1, 2, 3 and so on, so that neighbours
// would tell much twice; 0 would be a random one.
func spread(from uint64) uint64 { return (from + 1) * 0x9E3779B97F4A7C15 }

func (s suite) env(at span) []string {
	// More memory for less collecting: the stories are short and allocate much.
	env := []string{"GOMAXPROCS=1", "GOGC=400", "UNDERWAY_SEED="}
	if !s.rapid {
		env = append(env, fmt.Sprintf("UNDERWAY_FROM=%d", at.from), fmt.Sprintf("UNDERWAY_SEEDS=%d", at.len()))
	}
	return env
}

// culprit is the seed that failed, by what the test said of it.
func (s suite) culprit(output string) (seed uint64, said bool) {
	pattern := `\bseed (\d+)\b`
	if s.rapid {
		pattern = `-rapid\.seed=(\d+)`
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(output)
	if found == nil {
		return 0, false
	}
	seed, err := strconv.ParseUint(found[1], 10, 64)
	return seed, err == nil
}

// again is the command that tells one story, or a span of which it is not known which one failed.
func (s suite) again(at span, seed uint64, said bool) string {
	run := fmt.Sprintf("go test ./%s -run '^(%s)$'", s.pkg, s.tests)
	switch {
	case s.rapid && said:
		return fmt.Sprintf("%s -rapid.seed=%d", run, seed)
	case s.rapid:
		return fmt.Sprintf("%s -rapid.seed=%d -rapid.checks=%d", run, spread(at.from), at.len())
	case said:
		return fmt.Sprintf("UNDERWAY_SEED=%d %s", seed, run)
	}
	return fmt.Sprintf("UNDERWAY_FROM=%d UNDERWAY_SEEDS=%d %s", at.from, at.len(), run)
}
