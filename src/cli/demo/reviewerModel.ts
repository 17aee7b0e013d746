import { Effect, Option, Schema, type Scope } from "effect"
import { startModelServer } from "./modelServer.ts"

/** A refund, as the agents of the demo ask for it. */
export const Refund = Schema.Struct({
  order: Schema.String,
  amount: Schema.Finite,
  note: Schema.String
})
export type Refund = typeof Refund.Type

/** The decision of a scripted model about a refund. */
export type Script = (refund: Refund) => "approve" | "reject"

const decodeInput = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ tool: Schema.String, arguments: Refund }))
)

/** A model that decides about each tool as a script says, and counts the steps about which it was asked. */
export interface ReviewerModel {
  readonly url: string
  /** How it decides about the steps of a tool. */
  readonly scripts: Map<string, Script>
  /** How many steps of a tool it was asked about. */
  readonly askedAbout: (tool: string) => number
}

/** Starts a model server whose answers are scripted. Its answer about an unknown step is `unsure`. */
export const startReviewerModel: Effect.Effect<ReviewerModel, never, Scope.Scope> = Effect.suspend(() => {
  const scripts = new Map<string, Script>()
  const asked = new Map<string, number>()
  const server = startModelServer((messages) => {
    const input = decodeInput(messages.at(-1)?.content)
    if (Option.isNone(input)) return { decision: "unsure", reason: "Not a refund" }
    const { arguments: refund, tool } = input.value
    asked.set(tool, (asked.get(tool) ?? 0) + 1)
    const decision = scripts.get(tool)?.(refund) ?? "unsure"
    return { decision, reason: `A refund of ${refund.amount} EUR for order ${refund.order}` }
  })
  return Effect.map(server, ({ url }) => ({
    url,
    scripts,
    askedAbout: (tool) => asked.get(tool) ?? 0
  }))
})
