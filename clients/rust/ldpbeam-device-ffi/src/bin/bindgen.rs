//! `uniffi-bindgen LIBRARY FOLDER` writes FOLDER/kotlin and FOLDER/swift for a library that is not stripped.

use uniffi::{GenerateOptions, TargetLanguage, generate};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder] = arguments.as_slice() else { panic!("say a library and a folder") };
    for (language, name) in [(TargetLanguage::Kotlin, "kotlin"), (TargetLanguage::Swift, "swift")] {
        generate(GenerateOptions {
            languages: vec![language],
            source: library.into(),
            out_dir: format!("{folder}/{name}").into(),
            config_override: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/bindgen.toml").into()),
            format: false,
            crate_filter: None,
            metadata_no_deps: true,
        })
        .expect("a library of this crate with its symbols");
    }
}
