/** Codex' settings in TOML, changed line by line: everything else in the file stays, comments too. Pure: file contents in and out. */
import { type Hook, type HookInstallation, UnknownSettings, wantedHooks } from "./hookSettings.ts"

const BEGIN = "# countersign hook install: begin"
const END = "# countersign hook install: end"

/** A value as TOML. A JSON string has the escapes of a basic string of TOML. */
const value = (of: unknown): string => JSON.stringify(of)

/** The file's lines, and whether each can be a header or an assignment: not inside of a text of several lines. */
const linesOf = (text: string): ReadonlyArray<{ readonly line: string; readonly isCode: boolean }> => {
  let delimiter: string | undefined
  return text.split("\n").map((line) => {
    const isCode = delimiter === undefined
    for (let rest = line; ;) {
      const found = (delimiter === undefined ? NEXT_TEXT : endOf(delimiter)).exec(rest)
      if (found === null) return { line, isCode }
      const [token] = found
      rest = rest.slice(found.index + token.length)
      if (/^(?:"""|''')$/u.test(token)) delimiter = delimiter === undefined ? token : undefined
    }
  })
}

/** The begin of a text of several lines, or what may contain its delimiter: another text, or a comment. */
const NEXT_TEXT = /"""|'''|"(?:\\.|[^"\\])*"|'[^']*'|#.*/u

/** The end of a text of several lines, or an escape, which may contain a part of it. */
const endOf = (delimiter: string): RegExp => (delimiter === "'''" ? /'''/u : /\\.|"""/u)

/** Whether a name is assigned before the first table: `features = { … }` or `features.hooks = true`. */
const assignsAtRoot = (lines: ReturnType<typeof linesOf>, name: string): boolean => {
  const first = lines.findIndex(({ isCode, line }) => isCode && /^\s*\[/u.test(line))
  const assignment = new RegExp(`^\\s*["']?${name}["']?\\s*[.=]`, "u")
  return lines
    .slice(0, first < 0 ? lines.length : first)
    .some(({ isCode, line }) => isCode && assignment.test(line))
}

/** Whether a line begins a table. Its name may contain `#`. */
const isHeaderOf = (table: string, line: string): boolean => {
  const inner = line.trimStart().replace(/^\[\s*/u, "")
  return [table, `"${table}"`, `'${table}'`].some(
    (written) => inner.startsWith(written) && /^\s*\]\s*(#.*)?$/u.test(inner.slice(written.length))
  )
}

/** Sets a value in a table, which is added if there is none. Throws {@link UnknownSettings} for a table that is not written as one. */
export const setInTable = (text: string, table: string, name: string, to: unknown): string => {
  const lines = linesOf(text)
  const [root = table] = table.split(".", 1)
  if (assignsAtRoot(lines, root))
    throw new UnknownSettings(`it sets \`${root}\` other than as a table: write [${root}]`)
  const assignment = `${name} = ${value(to)}`
  const at = lines.findIndex(({ isCode, line }) => isCode && isHeaderOf(table, line))
  const all = lines.map(({ line }) => line)
  if (at < 0) {
    const before = text.trimEnd()
    return `${before === "" ? "" : `${before}\n\n`}[${table}]\n${assignment}\n`
  }
  const next = lines.findIndex(({ isCode, line }, index) => index > at && isCode && /^\s*\[/u.test(line))
  const end = next < 0 ? lines.length : next
  const found = lines.findIndex(
    ({ isCode, line }, index) =>
      index > at && index < end && isCode && new RegExp(`^\\s*["']?${name}["']?\\s*=`, "u").test(line)
  )
  return (found < 0 ? all.toSpliced(at + 1, 0, assignment) : all.with(found, assignment)).join("\n")
}

/** The file without the hooks of Countersign. */
export const withoutManagedHooks = (text: string): string => {
  const begin = text.indexOf(BEGIN)
  if (begin < 0) return text
  const end = text.indexOf(END, begin)
  if (end < 0) throw new UnknownSettings(`the line \`${END}\` is missing`)
  const before = text.slice(0, begin).trimEnd()
  const after = text.slice(end + END.length).trim()
  return [before, after].filter((part) => part !== "").join("\n\n") + (before + after === "" ? "" : "\n")
}

const tableOf = ([event, hook]: readonly [string, Hook]): string =>
  [
    `[[hooks.${event}]]`,
    `[[hooks.${event}.hooks]]`,
    ...Object.entries(hook).map(([name, of]) => `${name} = ${value(of)}`)
  ].join("\n")

/**
 * The machine's requirements (`requirements.toml`) with the hooks. Codex runs them without being told to trust them, and neither a user nor a
 * project can switch them off.
 */
export const withManagedHooks = (text: string | undefined, installation: HookInstallation): string => {
  let others = withoutManagedHooks(text ?? "")
  for (const [name, to] of Object.entries({ hooks: true, ...GOVERNED_FEATURES }))
    others = setInTable(others, "features", name, to)
  const lines = linesOf(others)
  const isTable = lines.some(({ isCode, line }) => isCode && /^\s*\[hooks\.\w+\]\s*$/u.test(line))
  if (isTable || assignsAtRoot(lines, "hooks"))
    throw new UnknownSettings("it has `hooks` that are not written as [[hooks.Event]]")
  const tables = Object.entries(wantedHooks(installation)).map(tableOf)
  return `${others.trimEnd()}\n\n${[BEGIN, ...tables, END].join("\n")}\n`
}

/** Features of Codex while calls are governed: no hook sees the input that a model writes to a running program (`write_stdin`). */
export const GOVERNED_FEATURES: Readonly<Record<string, boolean>> = { unified_exec_tty: false }

/** Codex' own settings (`config.toml`) with the governed features. */
export const withFeatures = (text: string | undefined): string =>
  Object.entries(GOVERNED_FEATURES).reduce(
    (before, [name, to]) => setInTable(before, "features", name, to),
    text ?? ""
  )

/** The user's settings (`config.toml`) with the hash of a trusted hook. */
export const withTrust = (text: string, key: string, hash: string): string =>
  setInTable(text, `hooks.state.${value(key)}`, "trusted_hash", hash)
