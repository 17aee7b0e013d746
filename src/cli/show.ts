import { Console, type Effect } from "effect"
import { styleText } from "node:util"
import type { ReceivedDelivery } from "./receiver.ts"

type Style = Parameters<typeof styleText>[0]

/** Colour where a person looks (a terminal, and no `NO_COLOR`); plain text elsewhere. */
const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout })

const print = (lines: ReadonlyArray<string>): Effect.Effect<void> => Console.log(lines.join("\n"))

const indent = (text: string): string =>
  text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n")

/** A step of a story. */
export const step = (title: string, ...facts: ReadonlyArray<string>): Effect.Effect<void> =>
  print(["", paint("bold", title), ...facts.map((fact) => `  ${fact}`)])

/** A closing word: that all is well, or that it is not. */
export const verdict = (good: boolean, text: string): Effect.Effect<void> =>
  print(["", paint(good ? ["bold", "green"] : ["bold", "red"], text)])

/** Headers that say nothing about the delivery. */
const UNREMARKABLE: ReadonlySet<string> = new Set(["connection", "host", "accept", "accept-encoding"])

/** A delivery as it travelled: request line, headers, body, and what verification said. */
export const delivery = (received: ReceivedDelivery): Effect.Effect<void> =>
  print([
    "",
    paint("cyan", `  <- ${received.method} ${received.path}`),
    ...Object.entries(received.headers)
      .filter(([name]) => !UNREMARKABLE.has(name))
      .map(([name, value]) => `    ${paint("dim", `${name}:`)} ${value}`),
    "",
    indent(pretty(received.body)),
    "",
    received.verification.ok
      ? paint("green", `  verified: ${received.verification.type} ${received.verification.event_id}`)
      : paint("red", `  REFUSED (${received.verification.reason}): ${received.verification.message}`)
  ])

/** JSON with its lines broken, for reading; what is no JSON as it is. What was signed is the body as it came. */
const pretty = (body: string): string => {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}
