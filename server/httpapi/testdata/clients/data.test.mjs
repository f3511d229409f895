// The clients of PostgREST and Supabase, as npm has them, against /rest/v1. The tables are made by clients_test.go; each
// test that writes has rows of its own, so that the tests do not depend on their order.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { PostgrestClient } from '@supabase/postgrest-js'
import { createClient } from '@supabase/supabase-js'

const url = process.env.BOUGH_URL
const service = new PostgrestClient(`${url}/rest/v1`, { headers: { 'X-Service-Key': process.env.BOUGH_SERVICE_KEY } })
const user = new PostgrestClient(`${url}/rest/v1`, { headers: { Authorization: `Bearer ${process.env.BOUGH_TOKEN}` } })
// Realtime is not asked for, and old versions of Node have no WebSocket.
const options = { auth: { persistSession: false, autoRefreshToken: false }, realtime: { transport: class {} } }
const supabase = createClient(url, process.env.BOUGH_TOKEN, options)
after(() => supabase.removeAllChannels())

// rows returns the data of an answer that must be good.
async function rows(request, status) {
  const { data, error, status: got, count } = await request
  assert.equal(error, null, JSON.stringify(error))
  if (status) assert.equal(got, status)
  return count == null ? data : { data, count }
}

async function refused(request, status, code, message) {
  const { data, error, status: got } = await request
  assert.equal(data, null)
  assert.equal(got, status, JSON.stringify(error))
  assert.equal(error.code, code)
  assert.match(error.message, message)
  for (const key of ['code', 'details', 'hint', 'message']) assert.ok(key in error, `the error has no ${key}`)
  return error
}

test('a select returns the columns it names, in the order it asks for', async () => {
  assert.deepEqual(await rows(service.from('authors').select('id, name').order('id', { ascending: false }), 200), [
    { id: 3, name: 'Katherine' }, { id: 2, name: 'Grace' }, { id: 1, name: 'Ada' },
  ])
  assert.deepEqual(await rows(service.from('authors').select('who:name, born::text').eq('id', 1)), [{ who: 'Ada', born: '1815-12-10' }])
})

test('filters', async (t) => {
  const ids = async (f) => (await rows(f(service.from('posts').select('id')).order('id'))).map((r) => r.id)
  const cases = {
    eq: [(q) => q.eq('author_id', 1), [1, 2]],
    neq: [(q) => q.neq('author_id', 1), [3, 4]],
    'gt and lte': [(q) => q.gt('id', 1).lte('id', 3), [2, 3]],
    gte: [(q) => q.gte('views', 100), [2, 4]],
    lt: [(q) => q.lt('views', 100), [1, 3]],
    like: [(q) => q.like('title', '%engine%'), [1]],
    ilike: [(q) => q.ilike('title', '%COMPILER%'), [3]],
    likeAllOf: [(q) => q.likeAllOf('title', ['%Note%', '%engine%']), [1]],
    likeAnyOf: [(q) => q.likeAnyOf('title', ['%engine%', '%compiler%']), [1, 3]],
    'is null': [(q) => q.is('subtitle', null), [1, 3, 4]],
    'not is null': [(q) => q.not('subtitle', 'is', null), [2]],
    'is true': [(q) => q.is('published', true), [1, 2, 3]],
    in: [(q) => q.in('id', [1, 4, 99]), [1, 4]],
    'in with odd texts': [(q) => q.in('title', ['Notes on the engine', 'a, (b)']), [1]],
    notIn: [(q) => q.notIn('id', [1, 4]), [2, 3]],
    contains: [(q) => q.contains('labels', ['math']), [1, 2]],
    containedBy: [(q) => q.containedBy('labels', ['math', 'x']), [2, 4]],
    overlaps: [(q) => q.overlaps('labels', ['code', 'history']), [1, 3]],
    'json contains': [(q) => q.contains('data', { lang: 'en' }), [1, 3]],
    'json path': [(q) => q.eq('data->>lang', 'fr'), [2]],
    rangeGt: [(q) => q.rangeGt('span', '[1,5)'), [3]],
    rangeAdjacent: [(q) => q.rangeAdjacent('span', '[5,6)'), [1]],
    textSearch: [(q) => q.textSearch('search', 'engine & note', { config: 'english' }), [1]],
    'plain textSearch': [(q) => q.textSearch('title', 'compilers', { type: 'plain', config: 'english' }), [3]],
    match: [(q) => q.match({ author_id: 1, published: true }), [1, 2]],
    or: [(q) => q.or('id.eq.1,and(author_id.eq.2,views.lt.100)'), [1, 3]],
    'or with quotes': [(q) => q.or('title.eq."Commas, and (brackets) \\"quoted\\"",id.eq.2'), [2, 4]],
    not: [(q) => q.not('id', 'in', '(1,2)'), [3, 4]],
    filter: [(q) => q.filter('views', 'eq', 5), [1]],
    isDistinct: [(q) => q.isDistinct('subtitle', 'Part two'), [1, 3, 4]],
    regexMatch: [(q) => q.regexMatch('title', '^N'), [1]],
  }
  for (const [name, [f, want]] of Object.entries(cases)) {
    await t.test(name, async () => assert.deepEqual(await ids(f), want))
  }
})

test('embedding, in every direction', async () => {
  assert.deepEqual(
    await rows(service.from('posts').select('title, author:authors(name), comments(body), tags(name)').eq('id', 1).single()),
    { title: 'Notes on the engine', author: { name: 'Ada' }, comments: [{ body: 'First!' }, { body: 'Wonderful' }], tags: [{ name: 'maths' }, { name: 'machines' }] },
  )
  assert.deepEqual(await rows(service.from('authors').select('name, posts!inner(id)').eq('posts.published', false)), [{ name: 'Katherine', posts: [{ id: 4 }] }])
  assert.deepEqual(
    await rows(service.from('authors').select('name, posts(id)').order('id').order('id', { referencedTable: 'posts', ascending: false }).limit(1, { referencedTable: 'posts' })),
    [{ name: 'Ada', posts: [{ id: 2 }] }, { name: 'Grace', posts: [{ id: 3 }] }, { name: 'Katherine', posts: [{ id: 4 }] }],
  )
  assert.deepEqual(await rows(service.from('comments').select('body, ...posts(post:title, ...authors(name))').eq('id', 1)), [{ body: 'First!', post: 'Notes on the engine', name: 'Ada' }])
  assert.deepEqual(await rows(service.from('comments').select('id, reply:parent_id(body)').eq('id', 2)), [{ id: 2, reply: { body: 'First!' } }])
  assert.deepEqual(await rows(service.from('posts').select('id, comments(count)').order('id').limit(2)), [{ id: 1, comments: [{ count: 2 }] }, { id: 2, comments: [{ count: 0 }] }])
  await refused(service.from('posts').select('id, people(*)'), 400, 'PGRST200', /relationship/)
  const ambiguous = await refused(service.from('matches').select('teams(name)'), 300, 'PGRST201', /more than one relationship/)
  assert.match(ambiguous.hint, /teams!/)
  assert.deepEqual(await rows(service.from('matches').select('home:teams!matches_home_fkey(name), away:teams!matches_away_fkey(name)')), [{ home: { name: 'Red' }, away: { name: 'Blue' } }])
})

test('counts and pages', async () => {
  const { data, count } = await rows(service.from('posts').select('id', { count: 'exact' }).order('id').range(1, 2), 206)
  assert.deepEqual([data.map((r) => r.id), count], [[2, 3], 4])
  const head = await service.from('posts').select('*', { count: 'exact', head: true }).eq('author_id', 1)
  assert.deepEqual([head.status, head.count, head.data], [200, 2, null])
  const planned = await service.from('posts').select('id', { count: 'planned' })
  assert.ok(planned.count > 0)
  await refused(service.from('posts').select('id', { count: 'exact' }).range(100, 110), 416, 'PGRST103', /range/i)
})

test('exactly one row, or none', async () => {
  assert.deepEqual(await rows(service.from('authors').select('name').eq('id', 1).single()), { name: 'Ada' })
  await refused(service.from('authors').select('name').single(), 406, 'PGRST116', /single JSON object/)
  const none = await refused(service.from('authors').select('name').eq('id', 99).single(), 406, 'PGRST116', /single JSON object/)
  assert.match(none.details, /0 rows/)
  assert.equal(await rows(service.from('authors').select('name').eq('id', 99).maybeSingle()), null)
})

test('CSV, stripped nulls', async () => {
  assert.equal((await rows(service.from('posts').select('id,title,subtitle').in('id', [2, 4]).order('id').csv())).trimEnd(), 'id,title,subtitle\n2,On reckoners of numbers,Part two\n4,"Commas, and (brackets) ""quoted""",')
  assert.deepEqual(await rows(service.from('posts').select('id,subtitle').eq('id', 1).stripNulls()), [{ id: 1 }])
})

test('inserts', async () => {
  const one = await service.from('things').insert({ id: 100, name: 'one' })
  assert.deepEqual([one.status, one.data, one.error], [201, null, null])
  assert.deepEqual(await rows(service.from('things').insert([{ id: 101, name: 'a' }, { id: 102, name: 'b', amount: '12345678901234567890.123' }]).select('id, amount::text'), 201),
    [{ id: 101, amount: null }, { id: 102, amount: '12345678901234567890.123' }])
  assert.deepEqual(await rows(service.from('things').insert([{ id: 103, name: 'x' }, { id: 104 }], { defaultToNull: false }).select('id, name')),
    [{ id: 103, name: 'x' }, { id: 104, name: 'unnamed' }])
  const { data, count } = await rows(service.from('things').insert({ id: 105, name: 'c' }, { count: 'exact' }).select('name').single())
  assert.deepEqual([data, count], [{ name: 'c' }, 1])
  await refused(service.from('things').insert({ id: 105, name: 'again' }), 409, '23505', /duplicate key/)
  await refused(service.from('things').insert({ id: 106, nmae: 'x' }), 400, 'PGRST204', /nmae/)
  await refused(service.from('things').insert({ id: 106, amount: 'much' }), 400, '22P02', /numeric/)
  const post = await rows(service.from('comments').insert({ id: 900, post_id: 3, body: 'made' }).select('body, posts(title)').single())
  assert.deepEqual(post, { body: 'made', posts: { title: 'The compiler' } })
})

test('upserts', async () => {
  await rows(service.from('things').insert({ id: 200, name: 'old', code: 'u200' }))
  assert.deepEqual(await rows(service.from('things').upsert({ id: 200, name: 'new' }).select('id, name, code'), 200), [{ id: 200, name: 'new', code: 'u200' }])
  assert.deepEqual(await rows(service.from('things').upsert({ id: 201, name: 'by code', code: 'u200' }, { onConflict: 'code' }).select('name, code')), [{ name: 'by code', code: 'u200' }])
  assert.deepEqual(await rows(service.from('things').upsert([{ id: 201, name: 'ignored' }, { id: 202, name: 'made' }], { ignoreDuplicates: true }).select('id')), [{ id: 202 }])
})

test('updates and deletes', async () => {
  await rows(service.from('things').insert([{ id: 300, name: 'a' }, { id: 301, name: 'b' }, { id: 302, name: 'c' }]))
  const silent = await service.from('things').update({ name: 'z' }).eq('id', 300)
  assert.deepEqual([silent.status, silent.data], [204, null])
  assert.deepEqual(await rows(service.from('things').update({ name: 'y' }).in('id', [300, 301]).select('id, name').order('id')), [{ id: 300, name: 'y' }, { id: 301, name: 'y' }])
  assert.deepEqual(await rows(service.from('things').update({ name: 'q' }).eq('id', -1).select()), [])
  await refused(service.from('things').update({ name: 'many' }).in('id', [300, 301]).maxAffected(1), 400, 'PGRST124', /maximum|more/)
  assert.deepEqual(await rows(service.from('things').select('name').eq('id', 300)), [{ name: 'y' }])
  assert.deepEqual(await rows(service.from('things').delete().eq('id', 302).select('id')), [{ id: 302 }])
  const gone = await service.from('things').delete({ count: 'exact' }).in('id', [300, 301])
  assert.deepEqual([gone.status, gone.count], [204, 2])
})

test('a singular write that touches more rows is undone', async () => {
  await rows(service.from('things').insert([{ id: 400, name: 'a' }, { id: 401, name: 'a' }]))
  await refused(service.from('things').update({ name: 'b' }).in('id', [400, 401]).select().single(), 406, 'PGRST116', /single JSON object/)
  assert.deepEqual(await rows(service.from('things').select('name').in('id', [400, 401])), [{ name: 'a' }, { name: 'a' }])
})

test('rollback on request', async () => {
  assert.deepEqual(await rows(service.from('things').insert({ id: 500, name: 'ghost' }).select('id').rollback()), [{ id: 500 }])
  assert.deepEqual(await rows(service.from('things').select('id').eq('id', 500)), [])
})

test('functions', async () => {
  assert.equal(await rows(service.rpc('add', { a: 1, b: 2 })), 3)
  assert.equal(await rows(service.rpc('add', { a: 1, b: 2 }, { get: true })), 3)
  assert.equal(await rows(service.rpc('add', { a: 1 })), 11)
  assert.deepEqual(await rows(service.rpc('posts_of', { author: 1 }).select('id, authors(name)').order('id').limit(1)), [{ id: 1, authors: { name: 'Ada' } }])
  assert.deepEqual(await rows(service.rpc('pair')), { low: 1, high: 2 })
  assert.deepEqual(await rows(service.rpc('pairs')), [{ low: 1, high: 2 }, { low: 3, high: 4 }])
  assert.deepEqual(await rows(service.rpc('sum_of', { numbers: [1, 2, 3] })), 6)
  const nothing = await service.rpc('nothing')
  assert.deepEqual([nothing.status, nothing.data], [204, null])
  const head = await service.rpc('posts_of', { author: 1 }, { head: true, count: 'exact' })
  assert.deepEqual([head.status, head.count], [200, 2])
  await refused(service.rpc('add_up'), 404, 'PGRST202', /add_up/)
  await refused(service.rpc('teapot'), 418, 'PT418', /short and stout/)
  await refused(service.rpc('fail'), 400, 'P0001', /on purpose/)
  await refused(service.rpc('write_something', {}, { get: true }), 405, '25006', /read-only/)
})

test('errors say what would be right', async () => {
  await refused(service.from('nowhere').select(), 404, 'PGRST205', /nowhere/)
  const column = await refused(service.from('posts').select('titel'), 400, '42703', /titel/)
  assert.match(column.hint, /title/)
  await refused(service.from('posts').select('id').eq('id', 'one'), 400, '22P02', /integer/)
  await refused(service.from('posts').select('id').filter('id', 'equals', 1), 400, 'PGRST100', /equals/)
})

test('an aborted request is over', async () => {
  const controller = new AbortController()
  const request = service.rpc('nap', { seconds: 30 }).abortSignal(controller.signal)
  setTimeout(() => controller.abort(), 100)
  const began = Date.now()
  const { error } = await request
  assert.match(error.message, /abort/i)
  assert.ok(Date.now() - began < 10_000)
  assert.deepEqual(await rows(service.rpc('still_napping')), 0)
})

test('another schema', async () => {
  assert.deepEqual(await rows(service.schema('side').from('notes').select()), [{ id: 1, body: 'aside' }])
  await refused(service.schema('pg_catalog').from('pg_class').select(), 406, 'PGRST106', /schema/)
})

test('row-level security holds for a signed-in user', async () => {
  assert.deepEqual((await rows(user.from('notes').select('body'))).map((r) => r.body), ['mine'])
  await refused(user.from('notes').insert({ body: 'forged', owner: '00000000-0000-0000-0000-000000000000' }), 403, '42501', /row-level security/)
  await refused(user.from('things').select(), 403, '42501', /permission denied/)
  assert.equal((await rows(service.from('notes').select('body'))).length, 2)
})

test('supabase-js reads and writes', async () => {
  assert.deepEqual(await rows(supabase.from('notes').select('body')), [{ body: 'mine' }])
  const { data, error } = await supabase.from('notes').insert({ body: 'by supabase-js' }).select('body').single()
  assert.equal(error, null)
  assert.deepEqual(data, { body: 'by supabase-js' })
  assert.equal((await supabase.from('notes').delete().eq('body', 'by supabase-js')).status, 204)
  assert.equal((await supabase.rpc('whoami')).data, process.env.BOUGH_USER)
})
