/** The characters of random parts, by the letter that stands for them in a grammar. */
const alphabets: Readonly<Record<string, string>> = {
  /** Base62. */
  A: "0-9A-Za-z",
  /** Base64url. */
  U: "0-9A-Za-z_-",
  /** Base64. */
  B: "0-9A-Za-z+/",
  /** Base62 and `_`. */
  W: "0-9A-Za-z_",
  /** Base64 of either form, and `.`. */
  D: "0-9A-Za-z+/_.-",
  /** Further signs that single vendors use. */
  E: "0-9A-Za-z_~.-",
  I: "0-9A-Za-z._",
  J: "0-9A-Za-z_!.-",
  M: "0-9A-Za-z_=-",
  Q: "0-9A-Za-z%+/=_-",
  V: "!#-&(-;=?-_a-~",
  Y: "0-9A-Za-z_:-",
  Z: "0-9A-Za-z#^/+=.",
  /** Padding of base64. */
  P: "=",
  h: "0-9a-f",
  H: "0-9A-F",
  x: "0-9A-Fa-f",
  d: "0-9",
  l: "a-z",
  L: "A-Za-z",
  n: "0-9a-z",
  N: "0-9A-Z",
  /** Base32. */
  S: "A-Z2-7",
  s: "a-z2-7",
  /** Base58. */
  K: "1-9A-HJ-NP-Za-km-z",
  /** Bech32, lower and upper case. */
  b: "02-9ac-hj-np-z",
  C: "02-9AC-HJ-NP-Z"
}

/** A literal text of a grammar. */
export interface Literal {
  readonly literal: string
}

/** A random part: its alphabet and its length in characters. */
export interface RandomPart {
  /** The characters as a class of a regular expression, without brackets. */
  readonly alphabet: string
  readonly min: number
  readonly max: number
}

/** A form of a kind: its parts, and a sticky expression that captures each random one. */
export interface Grammar {
  readonly parts: ReadonlyArray<Literal | RandomPart>
  readonly form: RegExp
  /** The natural logarithm of the size of each random part's alphabet. */
  readonly nats: ReadonlyArray<number>
}

/** A kind of secret of a vendor. */
export interface SecretKind {
  readonly vendor: string
  /** Literals that such a secret begins with; none if it is recognized by its form alone. */
  readonly prefixes: ReadonlyArray<string>
  readonly grammars: ReadonlyArray<Grammar>
}

/** The parts of a grammar such as `{d12}-{A24-40}`; `{uuid}` stands for a UUID. */
const parseParts = (text: string): ReadonlyArray<Literal | RandomPart> =>
  Array.from(
    text
      .replaceAll("{uuid}", "{x8}-{x4}-{x4}-{x4}-{x12}")
      .matchAll(/\{([A-Za-z])([0-9]+)(?:-([0-9]+))?\}|[^{]+/g),
    ([literal, name, min, max]) => {
      if (name === undefined) return { literal }
      const alphabet = alphabets[name]
      if (alphabet === undefined) throw new Error(`No alphabet ${name} in ${text}`)
      return { alphabet, min: Number(min), max: Number(max ?? min) }
    }
  )

/** Minimum length of a part that may be cut off, or longer in a later version. */
const MIN_VARIABLE = 12
/** Minimum length of prefixes that few other words begin with. */
const MIN_DISTINCT = 3

/**
 * The source of a form. After a prefix, long parts may be a third shorter or several times longer than documented: a token that was cut off
 * is still a secret, and later versions are often longer. Linear: each part is one bounded run of a class.
 */
const sourceOf = (parts: ReadonlyArray<Literal | RandomPart>, prefixes: ReadonlyArray<string>): string =>
  parts
    .map((part) => {
      if ("literal" in part) return part.literal.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")
      const isVariable = prefixes.length > 0 && part.min >= MIN_VARIABLE
      const mayBeCut = isVariable && prefixes.every((prefix) => prefix.length >= MIN_DISTINCT)
      const min = mayBeCut ? Math.ceil((part.min * 2) / 3) : part.min
      const max = isVariable ? Math.max(4 * part.max, 256) : part.max
      return `([${part.alphabet}]{${min},${max}})`
    })
    .join("")

const sizeOf = (alphabet: string): number => {
  const one = new RegExp(`[${alphabet}]`)
  return Array.from({ length: 0x5e }, (_, index) => String.fromCharCode(0x21 + index)).filter((character) =>
    one.test(character)
  ).length
}

const parseGrammar = (text: string, prefixes: ReadonlyArray<string>): Grammar => {
  const parts = parseParts(text)
  const random = parts.filter((part) => "alphabet" in part)
  const source = sourceOf(parts, prefixes)
  return {
    parts,
    form:
      prefixes.length > 0
        ? new RegExp(source, "y")
        : new RegExp(
            `(?<![0-9A-Za-z${random[0]?.alphabet}])${source}(?![0-9A-Za-z${random.at(-1)?.alphabet}])`,
            "g"
          ),
    nats: random.map(({ alphabet }) => Math.log(sizeOf(alphabet)))
  }
}

/**
 * Reads a table of kinds, one a line: `vendor | prefixes | grammars`. Prefixes and grammars are separated by blanks; `-` stands for no
 * prefix. Checksums are not checked: a mistyped or revoked token is still a secret.
 */
export const parseKinds = (table: string): ReadonlyArray<SecretKind> =>
  table
    .trim()
    .split("\n")
    .map((line) => {
      const [vendor = "", begins = "", grammars = ""] = line.split(" | ")
      const prefixes = begins === "-" ? [] : begins.split(" ")
      return { vendor, prefixes, grammars: grammars.split(" ").map((one) => parseGrammar(one, prefixes)) }
    })
