import { Console, type Effect } from "effect"
import { styleText } from "node:util"
import { escapeInvisible, escapeInvisibleJson } from "./escapeInvisible.ts"
import type { ReceivedDelivery } from "./receiver.ts"

type Style = Parameters<typeof styleText>[0]

/** Colours on a terminal without `NO_COLOR`; plain text elsewhere. */
const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout })

const print = (lines: ReadonlyArray<string>): Effect.Effect<void> => Console.log(lines.join("\n"))

const indent = (text: string): string =>
  text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n")

/** Prints a step of the demo. */
export const printStep = (title: string, ...facts: ReadonlyArray<string>): Effect.Effect<void> =>
  print(["", paint("bold", title), ...facts.map((fact) => `  ${fact}`)])

/** Prints the result. */
export const printResult = (good: boolean, text: string): Effect.Effect<void> =>
  print(["", paint(good ? ["bold", "green"] : ["bold", "red"], text)])

/** Headers that are not specific to the delivery. */
const UNREMARKABLE: ReadonlySet<string> = new Set(["connection", "host", "accept", "accept-encoding"])

/** Longest texts of a request that is not verified, in characters: anybody can send one, also a page in a browser. */
const MAX_UNVERIFIED = 200

const onOneLine = (text: string): string => {
  const characters = Array.from(escapeInvisible(text).replaceAll("\n", "\\n"))
  const rest = characters.length - MAX_UNVERIFIED
  return rest <= 0 ? characters.join("") : `${characters.slice(0, MAX_UNVERIFIED).join("")}… (${rest} more)`
}

/** The lines of a delivery: request line, headers, body and verification result. Invisible characters are escaped. */
export const describeDelivery = (received: ReceivedDelivery): ReadonlyArray<string> => {
  const { body, headers, method, path, verification } = received
  return [
    "",
    paint("cyan", `  <- ${onOneLine(`${method} ${path}`)}`),
    ...Object.entries(headers)
      .filter(([name]) => !UNREMARKABLE.has(name))
      .map(([name, value]) => `    ${paint("dim", `${onOneLine(name)}:`)} ${onOneLine(value)}`),
    "",
    indent(verification.ok ? pretty(body) : onOneLine(body)),
    "",
    verification.ok
      ? paint("green", `  verified: ${onOneLine(verification.type)} ${onOneLine(verification.event_id)}`)
      : paint("red", `  REFUSED (${verification.reason}): ${onOneLine(verification.message)}`)
  ]
}

/** Prints a delivery. */
export const printDelivery = (received: ReceivedDelivery): Effect.Effect<void> =>
  print(describeDelivery(received))

/** Formats JSON for reading. The signature covers the body as it was received. */
const pretty = (body: string): string => {
  try {
    return escapeInvisibleJson(JSON.stringify(JSON.parse(body), null, 2))
  } catch {
    return escapeInvisible(body)
  }
}
