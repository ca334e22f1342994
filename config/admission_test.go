package config_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/test/crd"
)

// admission is what the API server does with an object of one kind and version, by its own code: prune, default,
// validate by schema, list types and rules.
type admission struct {
	schema    *structuralschema.Structural
	validator validation.SchemaValidator
	rules     *schemacel.Validator
}

// crds returns the CRDs of the hub by kind, in the API server's own type.
func crds(tb testing.TB) map[string]*apiextensions.CustomResourceDefinition {
	tb.Helper()
	objects, err := config.HubCRDs()
	if err != nil {
		tb.Fatal(err)
	}
	byKind := map[string]*apiextensions.CustomResourceDefinition{}
	for _, object := range objects {
		one := internal(tb, object)
		byKind[one.Spec.Names.Kind] = one
	}
	return byKind
}

func internal(tb testing.TB, object *unstructured.Unstructured) *apiextensions.CustomResourceDefinition {
	tb.Helper()
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, external); err != nil {
		tb.Fatalf("%s: %v", object.GetName(), err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, crd, nil); err != nil {
		tb.Fatalf("%s: %v", object.GetName(), err)
	}
	return crd
}

// admissions prepares every version of every kind, by "<Kind>/<version>".
func admissions(tb testing.TB) map[string]*admission {
	tb.Helper()
	all := map[string]*admission{}
	for kind, crd := range crds(tb) {
		for _, version := range crd.Spec.Versions {
			all[kind+"/"+version.Name] = newAdmission(tb, crd, version.Name)
		}
	}
	return all
}

func newAdmission(tb testing.TB, crd *apiextensions.CustomResourceDefinition, version string) *admission {
	tb.Helper()
	schema, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil {
		tb.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		tb.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		tb.Fatal(err)
	}
	return &admission{
		schema: structural, validator: validator, rules: schemacel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
}

// admit returns what is stored, or why not; old is nil for a create.
func (a *admission) admit(ctx context.Context, object, old *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	stored := object.DeepCopy()
	pruning.Prune(stored.Object, a.schema, true)
	defaulting.Default(stored.Object, a.schema)
	errs := validation.ValidateCustomResource(nil, stored.Object, a.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, a.schema, stored.Object)...)
	for _, err := range errs {
		switch err.Type { //nolint:exhaustive // as the API server: these keep the rules from being run
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return nil, errs
		default:
		}
	}
	var before any
	if old != nil {
		before = old.Object
	}
	if a.rules != nil {
		broken, _ := a.rules.Validate(ctx, nil, a.schema, stored.Object, before, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return stored, nil
}

// wrong lists the refusals of the case that errs does not have, and the errors that the case does not expect.
func wrong(errs field.ErrorList, tc crd.Case) []string {
	var found []string
	for path, says := range tc.Refused {
		if !slices.ContainsFunc(errs, func(err *field.Error) bool {
			return at(err.Field) == at(path) && strings.Contains(err.Error(), says)
		}) {
			found = append(found, fmt.Sprintf("no error at %q that says %q", path, says))
		}
	}
	for _, err := range errs {
		expected := tc.Noisy
		for path := range tc.Refused {
			expected = expected || at(err.Field) == at(path)
		}
		if !expected {
			found = append(found, "unexpected: "+err.Error())
		}
	}
	return found
}

// at writes a path in one way: schemas write map keys with a dot and rules with brackets, and the root is "<nil>".
func at(path string) string {
	return strings.NewReplacer("<nil>", "", "[east]", ".east").Replace(path)
}
