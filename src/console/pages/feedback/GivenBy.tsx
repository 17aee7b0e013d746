import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** Who gave feedback: a key, or an end user by a key's feedback token. */
export const GivenBy = ({ record }: { readonly record: FeedbackRecord }) => {
  const { created_by, end_user, source } = record
  const key = <UntrustedText text={created_by.name} />
  if (source === "api_key" && end_user === null) return key
  return (
    <>
      {end_user === null ? (
        "an end user"
      ) : (
        <>
          end user <span className="id">{end_user}</span>
        </>
      )}{" "}
      via {key}
    </>
  )
}
