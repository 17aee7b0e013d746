import { useEffect, useEffectEvent, useState } from "react"
import { Link } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { CopyButton } from "../CopyButton.tsx"
import { Tabs } from "../Tabs.tsx"
import * as firstRecords from "./firstRecords.ts"

/** How often an empty page looks for its first record, in milliseconds. */
const LOOK_INTERVAL_MS = 2_000

/** The languages that need a package, with what installs it. */
const packages: Readonly<Partial<Record<firstRecords.Snippet["language"], string>>> = {
  TypeScript: "countersign",
  "AI SDK": "countersign ai zod"
}

/** The text of an empty page, with its snippets. It looks for the first record while the page is visible. */
export default function Guide({
  look,
  of
}: {
  readonly of: (records: typeof firstRecords, origin: string) => firstRecords.FirstRecord
  readonly look?: () => void
}) {
  const { about, access, noun, snippets, title } = of(firstRecords, location.origin)
  const [language, setLanguage] = useState<firstRecords.Snippet["language"]>("curl")
  const snippet = snippets.find((one) => one.language === language) ?? snippets[0]
  const onLook = useEffectEvent(() => {
    if (!document.hidden) look?.()
  })
  useEffect(() => {
    const timer = setInterval(() => onLook(), LOOK_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div className="first-record">
      <h2>{title}</h2>
      <p className="quiet">{about}</p>
      {snippet === undefined ? null : (
        <>
          <div className="first-record-head">
            <Tabs
              label="Language"
              selected={snippet.language}
              onSelect={setLanguage}
              options={snippets.map((one) => [one.language, one.language])}
            />
            <CopyButton label="Copy the snippet" caption="Copy" text={snippet.code} />
          </div>
          <pre className="snippet">
            <code>{snippet.code}</code>
          </pre>
          <p className="quiet small">
            <KeyHint access={access} />
            {packages[snippet.language] === undefined ? null : (
              <>
                {" "}
                It imports <code>{packages[snippet.language]}</code>.
              </>
            )}
          </p>
        </>
      )}
      <p className="first-record-wait quiet small" role="status">
        Waiting for the first {noun}. It appears here by itself.
      </p>
    </div>
  )
}

/** Which key the requests need, and who can create it. */
const KeyHint = ({ access }: Pick<firstRecords.FirstRecord, "access">) => {
  const can = useCan()
  const needed =
    "preset" in access ? (
      <>
        the preset <code>{access.preset}</code>
      </>
    ) : (
      <>
        {access.scopes.length === 1 ? "the scope " : "the scopes "}
        {access.scopes.map((scope, index) => (
          <span key={scope}>
            {index === 0 ? null : " and "}
            <code>{scope}</code>
          </span>
        ))}
      </>
    )
  return (
    <>
      <code>COUNTERSIGN_API_KEY</code> is a key with {needed}.{" "}
      {can("keys.write") ? (
        <Link to="/keys?new=key">Create a key</Link>
      ) : (
        <>Your key cannot create keys: ask an admin of your organization for one.</>
      )}
    </>
  )
}
