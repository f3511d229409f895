package compile_test

import "testing"

func TestEmbeds(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		// to one
		{"posts", "select=id,authors!author_id(name)&order=id&limit=2", `[{"id":1,"authors":{"name":"Ann"}},{"id":2,"authors":{"name":"Ann"}}]`},
		{"posts", "select=id,editor_id(id,name)&order=id&limit=2", `[{"id":1,"editor_id":{"id":2,"name":"Bob"}},{"id":2,"editor_id":null}]`},
		{"posts", "select=id,editor:posts_editor(name)&order=id", `[{"id":1,"editor":{"name":"Bob"}},{"id":2,"editor":null},
			{"id":3,"editor":{"name":"Cid"}},{"id":4,"editor":{"name":"Ann"}}]`},
		{"comments", "select=id,posts(title,author:author_id(name,home))&id=eq.1",
			`[{"id":1,"posts":{"title":"First","author":{"name":"Ann","home":{"street":"Main St","zip":12345}}}}]`},
		{"cities", "select=name,regions(name)&order=id", `[{"name":"Vienna","regions":{"name":"Wien"}},
			{"name":"Innsbruck","regions":{"name":"Tirol"}},{"name":"Nowhere","regions":null}]`},
		// by the singular or the plural of the name
		{"cities", "select=region(name)&id=eq.1", `[{"region":{"name":"Wien"}}]`},
		// one to one, in both directions
		{"authors", "select=name,profiles(bio,links)&order=id&limit=2", `[{"name":"Ann","profiles":{"bio":"writes","links":["http://a","http://b"]}},{"name":"Bob","profiles":null}]`},
		{"profiles", "select=bio,authors(name)&order=author_id", `[{"bio":"writes","authors":{"name":"Ann"}},{"bio":"reads","authors":{"name":"Cid"}}]`},
		// to many
		{"posts", "select=id,comments(id,text)&order=id&comments.order=id", `[
			{"id":1,"comments":[{"id":1,"text":"nice"},{"id":2,"text":"meh"},{"id":5,"text":"again"}]},
			{"id":2,"comments":[{"id":3,"text":"ok"}]},{"id":3,"comments":[{"id":4,"text":"anonymous"}]},{"id":4,"comments":[]}]`},
		{"posts", "select=id,comments(id)&order=id&comments.order=likes.desc,id&comments.limit=1&comments.offset=1&limit=1&offset=0",
			`[{"id":1,"comments":[{"id":5}]}]`},
		{"posts", "select=id,c:comments(id,who:author_id(name))&c.likes.gt=0&c.order=id.desc&id=in.(1,3)&order=id", `[
			{"id":1,"c":[{"id":5,"who":{"name":"Bob"}},{"id":1,"who":{"name":"Bob"}}]},{"id":3,"c":[{"id":4,"who":null}]}]`},
		{"posts", "select=id,c:comments(id)&comments.id=eq.2&id=eq.1", `[{"id":1,"c":[{"id":2}]}]`},
		{"posts", "select=a:comments(id,author_id(posts!author_id(id))),id,a:title&a.id=gt.0&a.author_id.posts.limit=1&id=eq.1", `[{"id":1,"a":"First"}]`},
		{"posts", "select=id,comments(id)&comments.or=(id.eq.1,text.eq.again)&comments.order=id&id=eq.1", `[{"id":1,"comments":[{"id":1},{"id":5}]}]`},
		{"posts", "select=id,a:comments(id),b:comments(text)&a.id=eq.1&b.id=eq.2&id=eq.1", `[{"id":1,"a":[{"id":1}],"b":[{"text":"meh"}]}]`},
		// many to many, and back
		{"posts", "select=id,tags(name)&order=id&limit=2&tags.order=name.desc", `[{"id":1,"tags":[{"name":"sql"},{"name":"go"}]},{"id":2,"tags":[{"name":"sql"}]}]`},
		{"tags", "select=name,posts(id,comments(id))&order=id&posts.order=id&posts.comments.order=id.desc&posts.comments.limit=1", `[
			{"name":"go","posts":[{"id":1,"comments":[{"id":5}]}]},
			{"name":"sql","posts":[{"id":1,"comments":[{"id":5}]},{"id":2,"comments":[{"id":3}]}]},{"name":"unused","posts":[]}]`},
		{"authors", "select=id,followed:authors!follows_followed(id),followers:authors!follows_follower(id)&id=in.(1,2)&order=id&followed.order=id&followers.order=id",
			`[{"id":1,"followed":[{"id":2},{"id":3}],"followers":[{"id":2}]},{"id":2,"followed":[{"id":1}],"followers":[{"id":1}]}]`},
		// a relation and itself
		{`Odd "Names".x`, `select=Id,children:"Odd \"Names\".x"(Id),up:parent(Id)&order=Id`,
			`[{"Id":1,"children":[{"Id":2}],"up":null},{"Id":2,"children":[],"up":{"Id":1}}]`},
		{"authors", "select=id,mentor:mentor_id(name),pupils:authors!authors_mentor_id_fkey(id)&order=id&pupils.order=id", `[
			{"id":1,"mentor":null,"pupils":[{"id":2},{"id":3}]},{"id":2,"mentor":{"name":"Ann"},"pupils":[{"id":4}]},
			{"id":3,"mentor":{"name":"Ann"},"pupils":[]},{"id":4,"mentor":{"name":"Bob"},"pupils":[]}]`},
		{"authors", "select=id,pupils:authors!mentor_id(id,pupils:authors!mentor_id(id))&id=eq.1&pupils.order=id", `[
			{"id":1,"pupils":[{"id":2,"pupils":[{"id":4}]},{"id":3,"pupils":[]}]}]`},
		{"authors", "select=id,mentor:mentor_id(name,mentor:mentor_id(name))&id=eq.4", `[{"id":4,"mentor":{"name":"Bob","mentor":{"name":"Ann"}}}]`},
		// views
		{"popular", "select=id,author:happy_authors(name),comments(id)&order=id&comments.order=id", `[
			{"id":1,"author":{"name":"Ann"},"comments":[{"id":1},{"id":2},{"id":5}]},
			{"id":2,"author":{"name":"Ann"},"comments":[{"id":3}]},{"id":4,"author":null,"comments":[]}]`},
		{"popular", "select=id,author_id(name)&id=eq.4", `[{"id":4,"author_id":{"name":"Cid"}}]`},
		// functions as relationships
		{"posts", "select=id,top_comment(id,text)&order=id&limit=4", `[{"id":1,"top_comment":{"id":1,"text":"nice"}},
			{"id":2,"top_comment":{"id":3,"text":"ok"}},{"id":3,"top_comment":{"id":4,"text":"anonymous"}},{"id":4,"top_comment":null}]`},
		{"posts", "select=id,top_comment(id)&top_comment.limit=2&top_comment.order=id.desc&id=eq.1", `[{"id":1,"top_comment":{"id":5}}]`},
		{"authors", "select=id,shout,fans(name,fans(name))&id=eq.1", `[{"id":1,"shout":"ANN!","fans":[{"name":"Bob","fans":[{"name":"Ann"}]}]}]`},
		{"authors", "select=id,shout,fans(name,shout)&order=shout.desc&limit=3&fans.order=shout&fans.limit=2", `[{"id":4,"shout":"DEE!","fans":[]},
			{"id":3,"shout":"CID!","fans":[{"name":"Ann","shout":"ANN!"}]},{"id":2,"shout":"BOB!","fans":[{"name":"Ann","shout":"ANN!"}]}]`},
		// nothing inside
		{"posts", "select=id,comments()&id=eq.1", `[{"id":1}]`},
		{"posts", "select=id,authors!author_id(profiles())&id=eq.1", `[{"id":1}]`},
		{"posts", "select=id,comments(posts())&id=eq.2", `[{"id":2}]`},
		{"posts", "select=comments(id)&id=eq.4", `[{"comments":[]}]`},
	})
}

func TestEmbedsFilterTheirParents(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.check([]readCase{
		{"posts", "select=id,comments!inner(id)&comments.likes.gt=2&order=id", `[{"id":1,"comments":[{"id":1}]},{"id":2,"comments":[{"id":3}]}]`},
		{"posts", "select=id,comments!inner()&order=id", ids(1, 2, 3)},
		{"posts", "select=id,comments!inner()&order=id&limit=1&offset=1", ids(2)},
		{"posts", "select=id,authors!author_id!inner(name)&authors.name.eq=Bob", `[{"id":3,"authors":{"name":"Bob"}}]`},
		{"posts", "select=id,authors!author_id!inner(name)&authors.name.eq=Bob&limit=5", `[{"id":3,"authors":{"name":"Bob"}}]`},
		{"posts", "select=id,authors!author_id!inner()&authors.name.eq=Ann&order=id", ids(1, 2)},
		{"posts", "select=id,authors!author_id!left(name)&authors.name.eq=Bob&order=id&limit=2", `[{"id":1,"authors":null},{"id":2,"authors":null}]`},
		{"posts", "select=id,tags!inner(name)&tags.name.eq=go", `[{"id":1,"tags":[{"name":"go"}]}]`},
		{"authors", "select=id,posts!author_id!inner(id,comments!inner(id))&posts.comments.likes.gte=5", `[{"id":1,"posts":[{"id":2,"comments":[{"id":3}]}]}]`},
		{"authors", "select=id,posts!author_id!inner(comments!inner())&posts.comments.text.eq=anonymous", `[{"id":2}]`},
		{"comments", "select=id,posts!inner(title,author:author_id!inner(name))&posts.author.name.eq=Bob&limit=10", `[{"id":4,"posts":{"title":"Third","author":{"name":"Bob"}}}]`},
		{"comments", "select=id,posts!inner(title,author:author_id!inner(name))&posts.author.name.eq=Bob", `[{"id":4,"posts":{"title":"Third","author":{"name":"Bob"}}}]`},
		{"posts", "select=id,comments()&comments.is.null", ids(4)},
		{"posts", "select=id,comments()&comments=not.is.null&order=id", ids(1, 2, 3)},
		{"posts", "select=id,comments()&comments.is.not_null&comments.likes.gt=2&order=id", ids(1, 2)},
		{"posts", "select=id,editor:editor_id(name)&editor=is.null", `[{"id":2,"editor":null}]`},
		{"posts", "select=id,editor:editor_id(name)&editor=not.is.null&order=id&limit=1", `[{"id":1,"editor":{"name":"Bob"}}]`},
		{"posts", "select=id,comments(),tags()&or=(comments.is.null,tags.is.null)&order=id", ids(3, 4)},
		{"posts", "select=id,comments()&or=(comments.is.null,id.eq.1)&order=id", ids(1, 4)},
		{"posts", "select=id,c:comments()&not.or=(c.not.is.null,id.eq.1)", ids(4)},
		{"authors", "select=id,posts!author_id(id,comments())&posts.comments.is.null&id=eq.3", `[{"id":3,"posts":[{"id":4}]}]`},
		{"authors", "select=id,fans!inner()&order=id", ids(1, 2, 3)},
		// the columns of an embed are named like operators only where there are such columns
		{"comments", "select=id,posts!inner()&posts.title=eq.Third", ids(4)},
	})
}

func TestSpreads(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"posts", "select=id,...authors!author_id(author:name,home)&order=id&limit=3", `[{"id":1,"author":"Ann","home":{"street":"Main St","zip":12345}},
			{"id":2,"author":"Ann","home":{"street":"Main St","zip":12345}},{"id":3,"author":"Bob","home":null}]`},
		{"comments", "select=id,...posts(title,...authors!author_id(name,...profiles(bio)))&order=id&limit=1", `[{"id":1,"title":"First","name":"Ann","bio":"writes"}]`},
		{"posts", "select=id,...comments(text,likes)&comments.order=id&order=id", `[
			{"id":1,"text":["nice","meh","again"],"likes":[3,0,1]},{"id":2,"text":["ok"],"likes":[5]},
			{"id":3,"text":["anonymous"],"likes":[1]},{"id":4,"text":[],"likes":[]}]`},
		{"posts", "select=id,...tags(tag:name)&tags.order=name&id=in.(1,4)&order=id", `[{"id":1,"tag":["go","sql"]},{"id":4,"tag":[]}]`},
		{"authors", "select=id,posts!author_id(id,...authors!author_id(name),...comments(likes))&id=eq.2", `[{"id":2,"posts":[{"id":3,"name":"Bob","likes":[1]}]}]`},
		{"posts", "select=id,...editor_id(...profiles(bio))&order=id&limit=3", `[{"id":1,"bio":null},{"id":2,"bio":null},{"id":3,"bio":"reads"}]`},
		{"authors", "select=id,...comments!inner(posts())&order=id", ids(2, 3)},
		{"posts", "select=id,...editor_id!inner(name)&editor_id.name.eq=Cid", `[{"id":3,"name":"Cid"}]`},
		{"posts", "select=id,...editor_id(name,mood)&order=editor_id(name).desc.nullslast&limit=2", `[{"id":3,"name":"Cid","mood":null},{"id":1,"name":"Bob","mood":"sad"}]`},
	})
}

func TestOrderByEmbeds(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"posts", "select=id,editor:editor_id(name)&order=editor(name).desc.nullslast,id", `[{"id":3,"editor":{"name":"Cid"}},
			{"id":1,"editor":{"name":"Bob"}},{"id":4,"editor":{"name":"Ann"}},{"id":2,"editor":null}]`},
		{"posts", "select=id,editor_id()&order=editor_id(id),id&limit=2", ids(4, 1)},
		{"posts", "select=id,authors!author_id(name)&order=authors(shout),authors(id).desc,id.desc&limit=2", `[{"id":2,"authors":{"name":"Ann"}},{"id":1,"authors":{"name":"Ann"}}]`},
		{"authors", "select=id,comments(id,posts(title))&comments.order=posts(title).desc,id&id=eq.2",
			`[{"id":2,"comments":[{"id":3,"posts":{"title":"Second"}},{"id":1,"posts":{"title":"First"}},{"id":5,"posts":{"title":"First"}}]}]`},
		{"cities", "select=id,regions(name)&order=regions(name).nullsfirst", `[{"id":3,"regions":null},{"id":2,"regions":{"name":"Tirol"}},{"id":1,"regions":{"name":"Wien"}}]`},
		{"comments", "select=id,posts(authors!author_id(name,home))&order=posts(data->n).desc.nullslast,id&limit=1", `[{"id":3,"posts":{"authors":{"name":"Ann","home":{"street":"Main St","zip":12345}}}}]`},
	})
}

// Keys of any length and number are as they were asked for.
func TestKeysOfEmbeds(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	long := "a_name_that_is_longer_than_the_sixty_three_bytes_to_which_identifiers_are_cut"
	all := `"id":2,"parent":1`
	var renamed, list string
	for i := 1; i <= 60; i++ {
		n := itoa(i)
		all += `,"c` + n + `":` + n
		list += `,` + long + n + `:c` + n
		renamed += `,"` + long + n + `":` + n
	}
	r.check([]readCase{
		{"wide", "id=eq.2", "[{" + all + "}]"},
		{"wide", "select=id,wide(*)&id=eq.1", `[{"id":1,"wide":[{` + all + `}]}]`},
		{"wide", "select=id,parent(id" + list + ")&id=eq.2", `[{"id":2,"parent":{"id":1` + renamed + `}}]`},
		{"wide", "select=id,wide(id" + list + ")&id=eq.1", `[{"id":1,"wide":[{"id":2` + renamed + `}]}]`},
		{"posts", "select=id,editor_id(" + long + ":name)&order=id&limit=2", `[{"id":1,"editor_id":{"` + long + `":"Bob"}},{"id":2,"editor_id":null}]`},
		{"posts", "select=id,comments(" + long + "1:id," + long + "2:text)&id=eq.2", `[{"id":2,"comments":[{"` + long + `1":3,"` + long + `2":"ok"}]}]`},
		{"posts", "select=id,comments(id,text,id:likes)&id=eq.2", `[{"id":2,"comments":[{"text":"ok","id":5}]}]`},
		{"posts", `select=id,comments("\"'":id,"\\":text)&id=eq.2`, `[{"id":2,"comments":[{"\"'":3,"\\":"ok"}]}]`},
	})
}
