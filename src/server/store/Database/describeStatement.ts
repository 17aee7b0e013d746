/** The part of a statement that is read, in characters. A long statement is long because of its values, which follow its tables. */
const MAX_CHARACTERS = 20_000

/** The deepest parenthesis that is searched for a table. */
const MAX_DEPTH = 40

/** A word or a sign of a statement. Keywords are compared by `keyword`, which quoted identifiers do not have. */
interface Word {
  readonly text: string
  readonly keyword: string | undefined
}

/** The content of a parenthesis. */
type Group = ReadonlyArray<Part>
type Part = Word | Group

const isGroup = (part: Part | undefined): part is Group => Array.isArray(part)
const keywordOf = (part: Part | undefined): string | undefined =>
  part === undefined || isGroup(part) ? undefined : part.keyword

/** The tokens of a statement; comments, literals and dollar-quoted texts first, because they may contain all of the others. */
const tokens =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\be'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|'[^']*(?:'|$)|(\$(?:[a-z_]\w*)?\$)[\s\S]*?(?:\1|$)|"((?:[^"]|"")*)(?:"|$)|([a-z_][\w$]*)|[(),.]/gi

/** The words, signs and parentheses of a statement. Comments and literals are left out. */
const parse = (text: string): Group => {
  const root: Array<Part> = []
  const open: Array<Array<Part>> = [root]
  for (const [token, , quoted, bare] of text.slice(0, MAX_CHARACTERS).matchAll(tokens)) {
    const group = open.at(-1) ?? root
    if (token === "(") {
      const inner: Array<Part> = []
      group.push(inner)
      open.push(inner)
    } else if (token === ")") {
      if (open.length > 1) open.pop()
    } else if (bare !== undefined) group.push({ text: bare, keyword: bare.toUpperCase() })
    else if (quoted !== undefined) group.push({ text: quoted, keyword: undefined })
    else if (token === "," || token === ".") group.push({ text: token, keyword: token })
  }
  return root
}

/** The queries of `WITH` by their names, each with the queries that it can refer to. */
type Queries = ReadonlyMap<string, { readonly body: Group; readonly queries: Queries }>

const VERBS: ReadonlySet<string | undefined> = new Set([
  "SELECT",
  "VALUES",
  "INSERT",
  "UPDATE",
  "DELETE",
  "MERGE"
])

/** A statement without its `WITH`, and the queries that it can refer to: of its `WITH`, and of the statement around it. */
const splitWith = (parts: Group, outer: Queries): { readonly main: Group; readonly queries: Queries } => {
  if (keywordOf(parts[0]) !== "WITH") return { main: parts, queries: outer }
  const queries = new Map(outer)
  const isRecursive = keywordOf(parts[1]) === "RECURSIVE"
  let name: string | undefined
  for (const [at, part] of parts.entries()) {
    const before = keywordOf(parts[at - 1])
    if (VERBS.has(keywordOf(part))) return { main: parts.slice(at), queries }
    if (!isGroup(part)) {
      if (before === "WITH" || before === "RECURSIVE" || before === ",") name = part.text
    } else if (name !== undefined && (before === "AS" || before === "MATERIALIZED")) {
      queries.set(name, { body: part, queries: isRecursive ? queries : new Map(queries) })
    }
  }
  return { main: [], queries }
}

/** A table's name at a place of a statement, without its schema; undefined: something else is there. */
const nameAt = (
  parts: Group,
  start: number
): { readonly name: string; readonly isQualified: boolean } | undefined => {
  let at = start
  while (keywordOf(parts[at]) === "ONLY" || keywordOf(parts[at]) === "LATERAL") at++
  let isQualified = false
  for (; keywordOf(parts[at + 1]) === "."; at += 2) isQualified = true
  const part = parts[at]
  if (part === undefined || isGroup(part) || !/^[a-z_][\w$]*$/i.test(part.text)) return undefined
  return { name: part.text, isQualified }
}

/** The changed table of a statement such as `UPDATE`; undefined if it changes none. */
const changeOf = (parts: Group): string | undefined => {
  const verb = keywordOf(parts[0])
  const start = verb === "UPDATE" ? 1 : 2
  const isChange =
    verb === "UPDATE" ||
    (verb === "DELETE" && keywordOf(parts[1]) === "FROM") ||
    ((verb === "INSERT" || verb === "MERGE") && keywordOf(parts[1]) === "INTO")
  if (!isChange) return undefined
  const table = nameAt(parts, start)?.name
  return table === undefined ? verb : `${verb} ${table}`
}

const AFTER_FROM: ReadonlySet<string | undefined> = new Set([
  "WHERE",
  "GROUP",
  "HAVING",
  "WINDOW",
  "ORDER",
  "LIMIT",
  "OFFSET",
  "FETCH",
  "FOR",
  "UNION",
  "INTERSECT",
  "EXCEPT"
])

const SET_OPERATIONS: ReadonlySet<string | undefined> = new Set(["UNION", "INTERSECT", "EXCEPT", "ALL"])

/** Searches queries for their first table. Each is searched once: queries that refer to each other would take exponential time. */
const makeTableSearch = () => {
  const searched = new Set<Group>()

  /** The table that follows `FROM`, `JOIN` or a comma, or the first one of the query there. */
  const tableAt = (parts: Group, at: number, queries: Queries, depth: number): string | undefined => {
    const start = keywordOf(parts[at]) === "LATERAL" ? at + 1 : at
    const part = parts[start]
    if (isGroup(part)) return ofQuery(part, queries, depth + 1) ?? ofTables(part, queries, depth + 1)
    const found = nameAt(parts, start)
    if (found === undefined) return undefined
    const query = found.isQualified ? undefined : queries.get(found.name)
    if (query !== undefined) return ofQuery(query.body, query.queries, depth + 1)
    // A name before a parenthesis is that of a function.
    const next = parts[start + (keywordOf(part) === "ONLY" ? 2 : 1)]
    return !found.isQualified && isGroup(next) ? undefined : found.name
  }

  /** The first table of a list such as `a JOIN b`, which ends before `WHERE`. */
  const ofTables = (parts: Group, queries: Queries, depth: number): string | undefined => {
    for (const [at, part] of parts.entries()) {
      const keyword = keywordOf(part)
      if (AFTER_FROM.has(keyword)) return undefined
      const isBefore = keyword === "JOIN" || keyword === ","
      const table = isBefore || at === 0 ? tableAt(parts, isBefore ? at + 1 : at, queries, depth) : undefined
      if (table !== undefined) return table
    }
    return undefined
  }

  /** The first table of the queries in parentheses. */
  const inGroups = (parts: Group, queries: Queries, depth: number): string | undefined => {
    for (const part of parts) {
      const table = isGroup(part) ? ofQuery(part, queries, depth + 1) : undefined
      if (table !== undefined) return table
    }
    return undefined
  }

  /** The first table of a query: of its own `FROM`, else of the queries inside of it. */
  const ofQuery = (parts: Group, outer: Queries, depth: number): string | undefined => {
    if (searched.has(parts) || depth > MAX_DEPTH) return undefined
    searched.add(parts)
    const { main, queries } = splitWith(parts, outer)
    if (keywordOf(main[0]) !== "SELECT" && !isGroup(main[0])) return inGroups(main, queries, depth)
    for (const [at, part] of main.entries()) {
      const before = keywordOf(main[at - 1])
      // Not that of `IS DISTINCT FROM`; that of `extract(epoch FROM …)` is in a parenthesis without `SELECT`.
      const isFrom = keywordOf(part) === "FROM" && before !== "DISTINCT"
      const isOperand = isGroup(part) && (at === 0 || SET_OPERATIONS.has(before))
      const table = isFrom
        ? ofTables(main.slice(at + 1), queries, depth)
        : isOperand
          ? ofQuery(part, queries, depth + 1)
          : undefined
      if (table !== undefined) return table
    }
    return inGroups(main, queries, depth)
  }

  return ofQuery
}

/**
 * The verb of a statement and its table, such as `UPDATE approvals`. With `WITH`, it is its first change, else `SELECT`. A query has
 * its first table; for the name of a query of `WITH`, the first table of that. Never more of the text, although values are sent apart from it.
 */
export const describeStatement = (text: string): string => {
  const parts = parse(text)
  const { main, queries } = splitWith(parts, new Map())
  const statements = [...[...queries.values()].map(({ body }) => splitWith(body, new Map()).main), main]
  const change = statements.map(changeOf).find((found) => found !== undefined)
  if (change !== undefined) return change
  const verb = keywordOf(main[0]) ?? "statement"
  if (verb !== "SELECT" && !isGroup(main[0])) return /^[A-Z]+$/.test(verb) ? verb : "statement"
  const table = makeTableSearch()(parts, new Map(), 0)
  return table === undefined ? "SELECT" : `SELECT ${table}`
}
