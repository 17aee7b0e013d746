/** The tools of the servers that the tests govern. What was executed is told by a file: a line for each call. */
import { appendFileSync, existsSync, readFileSync } from "node:fs"

const required = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set`)
  return value
}

/** Records that a tool was executed. */
export const executed = (line: string): void => appendFileSync(required("EXECUTED"), `${line}\n`)

/** The description of the tool `refund`, which a test changes between two starts. */
export const refundDescription = (): string => {
  const file = required("DESCRIPTION")
  return existsSync(file) ? readFileSync(file, "utf8") : "Refunds an order."
}

/** Whether the server has a tool more than before. */
export const hasAddedTool = (): boolean => existsSync(`${required("DESCRIPTION")}.added`)

export const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] })
