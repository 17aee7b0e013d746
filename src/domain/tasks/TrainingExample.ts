import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"

export const TrainingMessage = Schema.Struct({
  role: Schema.Literals(["system", "user", "assistant"]).annotateKey({
    description: "Who the message is from."
  }),
  content: Schema.String.annotateKey({ description: "The text of the message." })
}).annotate({ identifier: "TrainingMessage", description: "A message of a chat with a model." })
export type TrainingMessage = typeof TrainingMessage.Type

export const ChatExample = Schema.Struct({
  messages: Schema.Array(TrainingMessage).annotateKey({
    description:
      "The messages that a run sends to the model for the example's input, without other examples, and the right answer."
  })
}).annotate({
  identifier: "ChatExample",
  description: "An example of a dataset, as a line of a file for supervised fine-tuning of a chat model."
})
export type ChatExample = typeof ChatExample.Type

export const PreferenceForm = documentedEnum({
  openai: "`input`, `preferred_output` and `non_preferred_output`, as OpenAI's fine-tuning takes them.",
  trl: "`prompt`, `chosen` and `rejected`, as Hugging Face TRL and most other trainers take them."
})
export type PreferenceForm = typeof PreferenceForm.Type

export const OpenAiPreference = Schema.Struct({
  input: Schema.Struct({
    messages: Schema.Array(TrainingMessage).annotateKey({
      description: "The messages that a run sends to the model."
    })
  }).annotateKey({ description: "The prompt." }),
  preferred_output: Schema.Array(TrainingMessage).annotateKey({ description: "The correction." }),
  non_preferred_output: Schema.Array(TrainingMessage).annotateKey({
    description: "The answer that was corrected."
  })
}).annotate({
  identifier: "OpenAiPreference",
  description: "A corrected answer and its correction, in the form of OpenAI's fine-tuning."
})

export const TrlPreference = Schema.Struct({
  prompt: Schema.Array(TrainingMessage).annotateKey({
    description: "The messages that a run sends to the model."
  }),
  chosen: Schema.Array(TrainingMessage).annotateKey({ description: "The correction." }),
  rejected: Schema.Array(TrainingMessage).annotateKey({ description: "The answer that was corrected." })
}).annotate({
  identifier: "TrlPreference",
  description: "A corrected answer and its correction, in the form of Hugging Face TRL."
})

export const PreferencePair = Schema.Union([OpenAiPreference, TrlPreference]).annotate({
  identifier: "PreferencePair",
  description:
    "A corrected answer and its correction, as a line of a file for direct preference optimization (DPO)."
})
export type PreferencePair = typeof PreferencePair.Type

/** Makes the line of a pair. */
export const toPreferencePair = (
  prompt: ReadonlyArray<TrainingMessage>,
  { chosen, rejected }: { readonly chosen: string; readonly rejected: string },
  form: PreferenceForm
): PreferencePair => {
  const answer = (content: string): ReadonlyArray<TrainingMessage> => [{ role: "assistant", content }]
  switch (form) {
    case "openai":
      return {
        input: { messages: prompt },
        preferred_output: answer(chosen),
        non_preferred_output: answer(rejected)
      }
    case "trl":
      return { prompt, chosen: answer(chosen), rejected: answer(rejected) }
  }
}
