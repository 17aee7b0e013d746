/**
 * Lint rule `countersign-sql/no-locale-case`: SQL that changes or ignores letter case by the database's locale, in which `I` and `i` can be
 * different letters. What `foldCase` makes does not depend on it.
 */

const localeCase = /\b(?:lower|upper|initcap)\s*\(|\bILIKE\b|\s!?~\*\s/giu

/** The text in the parentheses that a match opens, as far as it goes. */
const insideOf = (text, from) => {
  let depth = 1
  let at = from
  for (; at < text.length && depth > 0; at++) depth += { "(": 1, ")": -1 }[text[at]] ?? 0
  return text.slice(from, at)
}

const rule = {
  create(context) {
    const check = (node, text) => {
      for (const match of text.matchAll(localeCase)) {
        if (match[0].endsWith("(") && insideOf(text, match.index + match[0].length).includes("COLLATE"))
          continue
        context.report({ node, message: "Letter case by the database's locale. Use foldCase." })
      }
    }
    return {
      TemplateElement: (node) => check(node, node.value.raw),
      Literal(node) {
        if (typeof node.value === "string") check(node, node.value)
      }
    }
  }
}

export default { meta: { name: "countersign-sql" }, rules: { "no-locale-case": rule } }
