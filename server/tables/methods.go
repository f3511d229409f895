package tables

import (
	"context"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/introspect"
)

// Methods are the methods that the relation or function of a call takes, in PostgREST's order.
func (s *Service) Methods(ctx context.Context, c *Call) ([]string, error) {
	r := &request{Call: c, s: s}
	if err := r.mayRead(); err != nil {
		return nil, err
	}
	var err error
	if r.role, r.claims, err = s.Identity(c.Principal); err != nil {
		return nil, err
	}
	profile := c.AcceptProfile
	if profile == "" {
		profile = c.ContentProfile
	}
	if r.namespace, err = s.profile(profile); err != nil {
		return nil, err
	}
	if r.schema, err = s.schemas.Get(ctx, c.Database); err != nil {
		return nil, err
	}
	if c.Function != "" {
		return r.functionMethods()
	}
	rel, err := r.relation()
	if err != nil {
		return nil, err
	}
	if c.Key != nil && len(rel.PrimaryKey) == 0 {
		_, err := r.keyValues(rel)
		return nil, err
	}
	return r.relationMethods(rel), nil
}

func (r *request) relationMethods(rel *introspect.Relation) []string {
	allow := []string{"OPTIONS", methodGet, methodHead}
	collection := !r.Dialect.RecordPaths || r.Key == nil
	if collection && rel.Insertable {
		allow = append(allow, methodPost)
	}
	if (!r.Dialect.RecordPaths || r.Key != nil) && rel.Insertable && rel.Updatable && len(rel.PrimaryKey) > 0 {
		allow = append(allow, methodPut)
	}
	if rel.Updatable {
		allow = append(allow, methodPatch)
	}
	if rel.Deletable {
		allow = append(allow, methodDelete)
	}
	return allow
}

// functionMethods are what all functions of the name take together.
func (r *request) functionMethods() ([]string, error) {
	overloads := r.schema.Overloads(r.namespace, r.Function)
	if len(overloads) == 0 {
		_, err := r.context().PickOverload(r.Function, nil, compile.QueryInput)
		return nil, err
	}
	for _, fn := range overloads {
		if !fn.Procedure && fn.Volatility != introspect.Volatile {
			return []string{"OPTIONS", methodGet, methodHead, methodPost}, nil
		}
	}
	return []string{"OPTIONS", methodPost}, nil
}
