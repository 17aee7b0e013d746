import type { Language } from "./findTokens.ts"

/** The names of arguments that say what their text is. */
const named: ReadonlyArray<readonly [RegExp, Language]> = [
  [/sql/iu, "sql"],
  [/ya?ml/iu, "yaml"],
  [/^(?:cmd|command|commands|script|shell|bash|sh)$|_(?:cmd|command|script)$/iu, "shell"]
]

/** What SQL begins with, after comments and blanks. English sentences begin with some of the words too, but not with both parts. */
const SQL =
  /^(?:select\b[^]{1,400}?\bfrom\b|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b|merge\s+into\b|(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:unique\s+)?(?:table|index|view|schema|database|function|procedure|trigger|type|role|user|sequence|materialized|extension)\b|truncate\s+(?:table\s+)?\S+\s*(?:;|$)|with\s+\S+\s+as\s*\(|(?:grant|revoke)\s+[^]{1,200}?\bon\b|begin\s*;)/iu
const SQL_COMMENTS = /^(?:\s+|--[^\n]*\n|\/\*[^*]*\*\/)+/u

const SHELL = /^(?:#!\S*\b(?:sh|bash|zsh|dash|env)\b|\$ \S)/u

const YAML_START = /^(?:---\s|apiVersion:\s)/u
const YAML_LINE = /^\s*(?:- +)?(?:"[^"]{1,80}"|[\w./-]{1,80}):(?:\s|$)|^\s*- +\S|^\s*#|^---$/u

/** The lines that decide whether a text is YAML. */
const MAX_LINES = 100

/** The most characters whose start is looked at. */
const MAX_START = 4_000

/** The language of an argument; undefined if it is none of the coloured ones. `name`: the name of the argument, or none. */
export const detectLanguage = (name: string, text: string): Language | undefined => {
  const start = text.slice(0, MAX_START).trimStart()
  if (/^[[{]/u.test(start) && /[\]}]\s*$/u.test(text.slice(-100))) return "json"
  if (SHELL.test(start)) return "shell"
  if (SQL.test(start.replace(SQL_COMMENTS, ""))) return "sql"
  if (YAML_START.test(start) || hasYamlLines(start)) return "yaml"
  return named.find(([pattern]) => pattern.test(name))?.[1]
}

/** Whether there are several lines, and nearly all of them look like YAML. */
const hasYamlLines = (start: string): boolean => {
  const lines = start
    .split("\n")
    .slice(0, MAX_LINES)
    .filter((line) => line.trim() !== "")
  return lines.length > 2 && lines.filter((line) => YAML_LINE.test(line)).length >= 0.8 * lines.length
}
