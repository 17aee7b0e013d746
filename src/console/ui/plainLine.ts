import { splitMisleading } from "./UntrustedText.tsx"

/** A text of others as one line of at most so many characters, for places that show plain text: hidden characters become code points. */
export const plainLine = (text: string, maxLength: number): string => {
  const line = splitMisleading(text.slice(0, 4 * maxLength))
    .map((piece) => piece.text)
    .join("")
    .replace(/\s+/gu, " ")
    .trim()
  const characters = [...line]
  return characters.length <= maxLength ? line : `${characters.slice(0, maxLength - 1).join("")}…`
}
