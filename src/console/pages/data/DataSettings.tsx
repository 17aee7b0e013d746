import { PageHeader } from "../../ui/PageHeader.tsx"
import { useCan } from "../../state/session.ts"
import { Erasures } from "./Erasures.tsx"
import { Redaction } from "./Redaction.tsx"
import { Retention } from "./Retention.tsx"

/** How long records are kept, what is removed from texts, and the erasure of a data subject. */
export default function DataSettings() {
  const can = useCan()
  return (
    <div className="stack">
      <PageHeader title="Data">
        How long records are kept, what is removed from texts before they are stored or sent, and the erasure
        of a person’s data.
      </PageHeader>
      {can("org_config.read") ? (
        <>
          <Retention />
          <Redaction />
        </>
      ) : null}
      {can("data.delete") ? <Erasures /> : null}
    </div>
  )
}
