import type { Grammar } from "../../../../src/domain/redaction/Redaction/secretKinds/SecretKind.ts"
import type { SeededRandom } from "./corpus.ts"

const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index))

const characters = new Map<string, string>()
const charactersOf = (alphabet: string): string => {
  const known = characters.get(alphabet)
  if (known !== undefined) return known
  const one = new RegExp(`[${alphabet}]`)
  const drawn = visible.filter((character) => one.test(character)).join("")
  characters.set(alphabet, drawn)
  return drawn
}

/** Draws what follows the prefix of a vendor's secret: its literals, and random parts of the documented alphabets and lengths. */
export const drawSecret = ({ parts }: Grammar, draw: SeededRandom): string =>
  parts
    .map((part) =>
      "literal" in part
        ? part.literal
        : draw.of(charactersOf(part.alphabet), part.min + draw.number(part.max - part.min + 1))
    )
    .join("")
