/** Texts that models of all APIs are sent. */
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import type { Conversation } from "./ModelApi.ts"
import type { PromptMessage } from "./ProviderRequest.ts"

/** Faults in the message that asks the model to repair its answer. */
const MAX_REPORTED_FAULTS = 20

/** The system prompt. `showsSchema` if the answer schema is not sent in another place. */
export const systemPrompt = (
  { examples, instructions, schema }: Conversation,
  {
    answerIn = "with one JSON object that fits this JSON Schema, and with nothing else",
    showsSchema = true
  } = {}
): string => {
  const end = showsSchema ? ":" : "."
  return [
    instructions,
    examples.length === 0
      ? `The user's message is the input, as JSON. Answer ${answerIn}${end}`
      : `Each message of the user is an input, as JSON. The answers to the earlier ones are right. Answer the last one, ${answerIn}${end}`,
    showsSchema ? JSON.stringify(schema) : ""
  ]
    .filter((part) => part !== "")
    .join("\n\n")
}

/** Stands for the messages that ask for a repair, which quote an answer that is not valid: words of the model server are not recorded. */
const recordedRepair: PromptMessage = {
  role: "user",
  content: "[Asked to repair the answer, which did not match the answer schema.]"
}

/** The messages of a conversation as they are recorded, with this system prompt. */
export const recordedMessages = (
  system: string,
  { examples, input, repair }: Conversation
): ReadonlyArray<PromptMessage> => [
  { role: "system", content: system },
  ...inputTurns({ examples, input }),
  ...(repair === undefined ? [] : [recordedRepair])
]

/** The examples as earlier turns, the nearest last, because models give the most weight to the end of a prompt; then the input. */
export const inputTurns = ({ examples, input }: Pick<Conversation, "examples" | "input">) => [
  ...examples
    .toReversed()
    .flatMap((example) => [
      { role: "user", content: JSON.stringify(example.input) } as const,
      { role: "assistant", content: JSON.stringify(example.answer) } as const
    ]),
  { role: "user", content: JSON.stringify(input) } as const
]

/** Asks the model to repair an answer with these faults. */
export const repairPrompt = (faults: ReadonlyArray<SchemaFault>, again: string): string =>
  [
    "That answer does not fit the JSON Schema:",
    ...faults.slice(0, MAX_REPORTED_FAULTS).map(({ detail, pointer }) => `- ${pointer}: ${detail}`),
    again
  ].join("\n")
