import type { SeededRandom } from "./corpus.ts"

/** A class of characters, or a group with its alternatives, and how often it may occur. */
interface Part {
  readonly characters: string
  readonly alternatives: ReadonlyArray<ReadonlyArray<Part>>
  readonly isCaptured: boolean
  readonly min: number
  readonly max: number
}

/** A text that a pattern describes, and the part of its first capture, or all of it. */
export interface DrawnMatch {
  readonly text: string
  readonly secret: string
}

const printable = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join("")

/**
 * Draws the shortest and longest texts of every alternative of a regular expression of literals, classes, groups and bounded repetitions. Assertions of the context, such as `(?<!…)`,
 * are skipped.
 */
export const drawMatches = (pattern: RegExp, draw: SeededRandom): ReadonlyArray<() => DrawnMatch> => {
  const source = pattern.source
  let at = 0
  const parseAlternatives = (): ReadonlyArray<ReadonlyArray<Part>> => {
    const alternatives: Array<Array<Part>> = [[]]
    for (; at < source.length && source.charAt(at) !== ")";) {
      if (source.charAt(at) === "|") {
        at++
        alternatives.push([])
        continue
      }
      const part = parsePart()
      if (part !== undefined) alternatives.at(-1)?.push(part)
    }
    return alternatives
  }
  const parsePart = (): Part | undefined => {
    const [opening = ""] = /^\((?:\?(?:<?[!=]|:))?|^\[(?:\\.|[^\]\\])+\]|^\\?./.exec(source.slice(at)) ?? []
    at += opening.length
    const isGroup = opening.startsWith("(")
    const alternatives = isGroup ? parseAlternatives() : []
    if (isGroup) at++
    const [repetition = "", fixed, from, to] =
      /^(?:\{([0-9]+)\}|\{([0-9]+),([0-9]*)\}|[?*+])\??/.exec(source.slice(at)) ?? []
    at += repetition.length
    if (/[!=]$/.test(opening) && isGroup) return undefined
    if (opening === "\\b" || opening === "^") return undefined
    const isOptional = /^[?*]/.test(repetition)
    const min = Number(fixed ?? from ?? (isOptional ? 0 : 1))
    const max = repetition.startsWith("?") || repetition === "" ? 1 : Number((fixed ?? to) || min + 8)
    const one = isGroup ? /^$/ : new RegExp(`^${opening}$`)
    const characters = [...` \t\n${printable}`].filter((character) => one.test(character))
    // Whitespace only where nothing else is possible, since it ends a text that people quote.
    const visible = characters.filter((character) => /\S/.test(character))
    return {
      characters: (visible.length > 0 ? visible : characters).join(""),
      alternatives,
      isCaptured: opening === "(",
      min,
      max
    }
  }
  const root = parseAlternatives()
  const widthOf = (alternatives: ReadonlyArray<ReadonlyArray<Part>>): number =>
    Math.max(alternatives.length, ...alternatives.flat().map((part) => widthOf(part.alternatives)))
  const widest = widthOf(root)
  /** Writes the given alternative of every group, or its last, with as many characters as `countOf` says. */
  const write = (alternative: number, countOf: (part: Part) => number): DrawnMatch => {
    let secret: string | undefined
    const writeAll = (alternatives: ReadonlyArray<ReadonlyArray<Part>>): string =>
      (alternatives[Math.min(alternative, alternatives.length - 1)] ?? [])
        .map((part) => {
          const count = countOf(part)
          if (part.alternatives.length === 0) return draw.of(part.characters, count)
          const text = Array.from({ length: count }, () => writeAll(part.alternatives)).join("")
          if (part.isCaptured) secret = text
          return text
        })
        .join("")
    const text = writeAll(root)
    return { text, secret: secret ?? text }
  }
  const ofAlternatives = (countOf: (part: Part) => number): ReadonlyArray<() => DrawnMatch> =>
    Array.from({ length: widest }, (_, alternative) => () => write(alternative, countOf))
  return [...ofAlternatives(({ min }) => min), ...ofAlternatives(({ max }) => max)]
}
