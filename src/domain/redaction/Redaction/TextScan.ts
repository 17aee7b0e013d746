/**
 * One pass over a text that tells which searches can find something in it: which literal triggers it contains, how long its runs are, and
 * whether it has characters that need decoding. Most texts are settled by this pass alone, at about 3 ns per character.
 */
export interface TextScan {
  /** Bits of {@link ScanFlag}; 0 if the text has nothing to decode or to join. */
  readonly flags: number
  /** Length of the longest run of characters of tokens. */
  readonly longestRun: number
  /** Length of the longest run of letters, digits, `_` and `-`. */
  readonly longestWord: number
  /** Length of the longest run of hexadecimal digits. */
  readonly longestHexRun: number
  /** Whether the text contains a trigger of any search. */
  readonly hasAny: boolean
  /** Whether the text contains a trigger of a search. */
  readonly has: (search: number) => boolean
}

export const ScanFlag = {
  /** A control character or one beyond ASCII. */
  special: 1,
  /** A letter beyond Latin. */
  otherScript: 2,
  /** `%`, `\` or `&`, which begin escapes. */
  escape: 4,
  /** A line break, or a character beyond ASCII that may be one. */
  lineBreak: 8,
  /** A quotation mark. */
  quote: 16
} as const

/** Flags and kinds of ASCII characters: the flags above, and the bits below. */
const TOKEN = 64
const HEX = 128
const WORD = 256
const FLAGS = ScanFlag.special | ScanFlag.otherScript | ScanFlag.escape | ScanFlag.lineBreak | ScanFlag.quote
const properties = new Uint16Array(128)
for (let code = 0; code < 128; code++) {
  const character = String.fromCharCode(code)
  properties[code] =
    (code !== 0 && (code < 0x09 || (code > 0x0d && code < 0x20) || code === 0x7f) ? ScanFlag.special : 0) |
    (/[%\\&]/.test(character) ? ScanFlag.escape : 0) |
    (/[\n\v\f\r]/.test(character) ? ScanFlag.lineBreak : 0) |
    (/["'`]/.test(character) ? ScanFlag.quote : 0) |
    (/[0-9A-Za-z_.~$%+/=-]/.test(character) ? TOKEN : 0) |
    (/[0-9A-Fa-f]/.test(character) ? HEX : 0) |
    (/[0-9A-Za-z_-]/.test(character) ? WORD : 0)
}

/** A scanner for the triggers of several searches: an Aho-Corasick automaton over lower-case letters, with one look-up per character. */
export const makeTextScanner = (
  triggers: ReadonlyArray<ReadonlyArray<string>>
): ((text: string) => TextScan) => {
  const { classOf, classes, next, outputs } = makeAutomaton(triggers)
  const words = Math.ceil(triggers.length / 32)
  const none = new Uint32Array(words)
  return (text) => {
    let state = 0
    let flags = 0
    let run = 0
    let word = 0
    let hexRun = 0
    let longestRun = 0
    let longestWord = 0
    let longestHexRun = 0
    let found: Uint32Array | undefined
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code < 128) {
        const property = properties[code] ?? 0
        flags |= property
        run = (property & TOKEN) === 0 ? 0 : run + 1
        word = (property & WORD) === 0 ? 0 : word + 1
        hexRun = (property & HEX) === 0 ? 0 : hexRun + 1
      } else {
        flags |= ScanFlag.special | ScanFlag.lineBreak | (code >= 0x250 ? ScanFlag.otherScript : 0)
        run = 0
        word = 0
        hexRun = 0
      }
      if (run > longestRun) longestRun = run
      if (word > longestWord) longestWord = word
      if (hexRun > longestHexRun) longestHexRun = hexRun
      state = next[state * classes + (code < CLASSIFIED ? (classOf[code] ?? 0) : 0)] ?? 0
      const output = outputs[state]
      if (output !== undefined) {
        found ??= new Uint32Array(words)
        for (const search of output) found[search >> 5] = (found[search >> 5] ?? 0) | (1 << (search & 31))
      }
    }
    const bits = found ?? none
    return {
      flags: flags & FLAGS,
      longestRun,
      longestWord,
      longestHexRun,
      hasAny: found !== undefined,
      has: (search) => ((bits[search >> 5] ?? 0) & (1 << (search & 31))) !== 0
    }
  }
}

/** Characters up to Latin Extended-B have a class of their own if a trigger contains them. */
const CLASSIFIED = 0x250

const makeAutomaton = (triggers: ReadonlyArray<ReadonlyArray<string>>) => {
  const classOf = new Uint8Array(CLASSIFIED)
  let classes = 1
  for (const character of triggers.flat().join("").toLowerCase()) {
    const code = character.charCodeAt(0)
    if (classOf[code] === 0) {
      const upper = character.toUpperCase()
      classOf[code] = classes
      if (upper.length === 1 && upper.charCodeAt(0) < CLASSIFIED) classOf[upper.charCodeAt(0)] = classes
      classes++
    }
  }
  const children: Array<Map<number, number>> = [new Map()]
  const ends: Array<Set<number>> = [new Set()]
  for (const [search, words] of triggers.entries()) {
    for (const word of words) {
      let node = 0
      for (const character of word.toLowerCase()) {
        const kind = classOf[character.charCodeAt(0)] ?? 0
        let child = children[node]?.get(kind)
        if (child === undefined) {
          child = children.push(new Map()) - 1
          ends.push(new Set())
          children[node]?.set(kind, child)
        }
        node = child
      }
      ends[node]?.add(search)
    }
  }
  // Breadth first: the state to fall back to is nearer to the root, so its transitions are complete.
  const next = new Uint16Array(children.length * classes)
  const fallback = new Uint16Array(children.length)
  const queue = [0]
  for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
    for (let kind = 0; kind < classes; kind++) {
      const child = children[node]?.get(kind)
      const back = node === 0 ? 0 : (next[(fallback[node] ?? 0) * classes + kind] ?? 0)
      if (child === undefined) {
        next[node * classes + kind] = back
        continue
      }
      next[node * classes + kind] = child
      fallback[child] = back
      for (const search of ends[back] ?? []) ends[child]?.add(search)
      queue.push(child)
    }
  }
  const outputs = ends.map((searches) => (searches.size === 0 ? undefined : [...searches]))
  return { classOf, classes, next, outputs }
}
