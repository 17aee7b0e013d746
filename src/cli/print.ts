import { Console, type Effect } from "effect"
import { styleText } from "node:util"
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

/** Prints a delivery: request line, headers, body and verification result. */
export const printDelivery = (received: ReceivedDelivery): Effect.Effect<void> =>
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

/** Formats JSON for reading; other text is unchanged. The signature covers the body as it was received. */
const pretty = (body: string): string => {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}
