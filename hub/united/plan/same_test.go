package plan

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestNoFieldIsForgotten: what is compared by hand is compared whole, also when a field is added to it.
func TestNoFieldIsForgotten(t *testing.T) {
	t.Parallel()
	each(t, func(e *appsv1alpha1.SubsetStatus) bool { return sameEntry(e, &appsv1alpha1.SubsetStatus{}) }, "HeardAt")
	each(t, func(r *appsv1alpha1.ReleaseStatus) bool { return sameRelease(r, &appsv1alpha1.ReleaseStatus{}) })
	each(t, func(u *appsv1alpha1.UpdateStatus) bool { return samePartitions(u, &appsv1alpha1.UpdateStatus{}) })
	each(t, func(s *appsv1alpha1.UnitedDeploymentStatus) bool {
		return sameButHeard(s, &appsv1alpha1.UnitedDeploymentStatus{})
	})
}

// each sets one field after the other to something, and calls same; only those left out may be the same then.
func each[T any](t *testing.T, same func(*T) bool, left ...string) {
	t.Helper()
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		var v T
		field := reflect.ValueOf(&v).Elem().Field(i)
		name := of.Field(i).Name
		switch field.Kind() { //nolint:exhaustive // the others end the test
		case reflect.String:
			field.SetString("x")
		case reflect.Int32, reflect.Int64:
			field.SetInt(1)
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("x"), reflect.New(field.Type().Elem()).Elem())
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			if at, ok := reflect.TypeAssert[*metav1.Time](field); ok {
				at.Time = time.Unix(1, 0)
			}
		default:
			t.Fatalf("%s: a kind that this test does not know", name)
		}
		if out := len(left) > 0 && left[0] == name; same(&v) != out {
			t.Errorf("%s.%s is compared: %v", of.Name(), name, out)
		}
	}
}
