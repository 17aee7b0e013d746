import type { Schema } from "effect"
import { schemaWarnings } from "../../../domain/tasks/schemaWarnings.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** Lists the keywords of a schema that have no effect; nothing if there are none. */
export const SchemaWarnings = ({ schema }: { readonly schema: Schema.Json }) => {
  const warnings = schemaWarnings(schema)
  return warnings.length === 0 ? null : (
    <div className="notice warn">
      <p className="notice-title">Keywords without effect</p>
      <ul>
        {warnings.map(({ detail, pointer }) => (
          <li key={pointer}>
            <code>
              <UntrustedText text={pointer.slice(1)} />
            </code>{" "}
            {detail}.
          </li>
        ))}
      </ul>
    </div>
  )
}
