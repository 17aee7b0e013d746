/** Where a text stops being JSON (RFC 8259). */
export interface JsonSyntaxError {
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 code units. */
  readonly column: number
  /** The fault, without a part of the text. */
  readonly detail: string
}

const SCALAR = /(?:true|false|null)(?!\w)|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/** The next expected token: a value, the name of a member, its colon, or a token after a complete value. */
type Next = "value" | "name" | "colon" | "after"

/** Finds the first syntax error of a text; undefined if it is JSON. `JSON.parse` reports the place of some errors only. */
export const findSyntaxError = (text: string): JsonSyntaxError | undefined => {
  let at = 0
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const [found] = pattern.exec(text) ?? []
    at += found?.length ?? 0
    return found
  }
  const fault = (detail: string): JsonSyntaxError => {
    const before = text.slice(0, at)
    return { line: before.split("\n").length, column: at - before.lastIndexOf("\n"), detail }
  }
  /** Takes the rest of a string; returns its fault. */
  const takeString = (): string | undefined => {
    for (; at < text.length; at++) {
      if (text[at] === '"') return void at++
      if (text.charCodeAt(at) < 0x20)
        return String.raw`a string has a line break or control character: write \n`
      if (text[at] !== "\\") continue
      if (take(ESCAPE) === undefined) return String.raw`expected an escape such as \n, \" or \u00e9`
      at--
    }
    return 'expected `"` at the end of the string'
  }

  const open: Array<"}" | "]"> = []
  let next: Next = "value"
  /** Whether the container that was just opened can be closed at once. */
  let isEmpty = false
  const describeNext = (isClosing: boolean): string => {
    const closing = open.at(-1)
    const expected = { value: "a value", name: "a name in double quotes", colon: "`:`", after: "`,`" }[next]
    const orClosing = closing !== undefined && (next === "after" || isEmpty) ? ` or \`${closing}\`` : ""
    const comma = isClosing && next !== "colon" ? `; remove the comma before \`${closing}\`` : ""
    return `expected ${expected}${orClosing}${comma}`
  }
  for (;;) {
    while (isSpace(text.charCodeAt(at))) at++
    if (next === "after" && open.length === 0)
      return at === text.length ? undefined : fault("expected the end of the text")
    const character = text[at]
    const isClosing = character !== undefined && character === open.at(-1)
    const isOpening = next === "value" && (character === "[" || character === "{")
    if (isClosing && (next === "after" || isEmpty)) {
      at++
      open.pop()
      isEmpty = false
      next = "after"
    } else if (isOpening) {
      at++
      open.push(character === "[" ? "]" : "}")
      isEmpty = true
      next = character === "[" ? "value" : "name"
    } else if ((next === "colon" && character === ":") || (next === "after" && character === ",")) {
      at++
      next = next === "after" && open.at(-1) === "}" ? "name" : "value"
    } else if (character === '"' && (next === "value" || next === "name")) {
      at++
      const unfinished = takeString()
      if (unfinished !== undefined) return fault(unfinished)
      isEmpty = false
      next = next === "name" ? "colon" : "after"
    } else if (next === "value" && take(SCALAR) !== undefined) {
      isEmpty = false
      next = "after"
    } else return fault(describeNext(isClosing))
  }
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
