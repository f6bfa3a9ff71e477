//! The functions at a call site, and which of them names it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Frame, label};

/// The functions at a call site, innermost first. All but the first have it inlined.
///
/// The label is chosen when it is first asked for. Copies share it, so that a reader of many
/// profiles chooses once for each site.
#[derive(Clone, Debug, Default)]
pub struct Frames(Arc<Labelled>);

#[derive(Clone, Debug, Default)]
struct Labelled {
    frames: Vec<Frame>,
    first_own: OnceLock<Option<usize>>,
    label: OnceLock<Option<Frame>>,
    words: OnceLock<Option<String>>,
}

impl Frames {
    /// Returns true if no function is known.
    pub(crate) fn is_none(&self) -> bool {
        self.0.frames.is_empty()
    }

    /// Returns the index of the first function outside libraries, as [`label::first_own`] does.
    pub fn first_own(&self) -> Option<usize> {
        *self.0.first_own.get_or_init(|| label::first_own(&self.0.frames))
    }

    /// Returns the function that names the site, as [`label`] chooses and shortens it.
    pub fn label(&self) -> Option<&Frame> {
        let chosen = || {
            let frame = label::of_choice(&self.0.frames, self.first_own())?;
            Some(Frame { function: label::short(&frame.function), ..frame.clone() })
        };
        self.0.label.get_or_init(chosen).as_ref()
    }

    /// Returns the label as [`Frame::words`] formats it.
    pub fn label_words(&self) -> Option<&str> {
        self.0.words.get_or_init(|| self.label().map(Frame::words)).as_deref()
    }
}

impl From<Vec<Frame>> for Frames {
    fn from(frames: Vec<Frame>) -> Frames {
        Frames(Arc::new(Labelled { frames, ..Labelled::default() }))
    }
}

impl Deref for Frames {
    type Target = Vec<Frame>;

    fn deref(&self) -> &Vec<Frame> {
        &self.0.frames
    }
}

/// Copies of a changed value stay as they were, and its label is chosen again.
impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut Vec<Frame> {
        let labelled = Arc::make_mut(&mut self.0);
        labelled.first_own = OnceLock::new();
        labelled.label = OnceLock::new();
        labelled.words = OnceLock::new();
        &mut labelled.frames
    }
}

impl PartialEq for Frames {
    fn eq(&self, other: &Frames) -> bool {
        self.0.frames == other.0.frames
    }
}

impl Eq for Frames {}

impl Serialize for Frames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.frames.serialize(serializer)
    }
}

impl<'a> Deserialize<'a> for Frames {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Frames, D::Error> {
        Vec::deserialize(deserializer).map(Frames::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_chosen_once_and_again_after_a_change() {
        let frame = |function: &str| Frame { function: function.into(), ..Frame::default() };
        let frames = Frames::from(vec![frame("malloc_wrapper_of::app()"), frame("main")]);
        let copy = frames.clone();
        let label = frames.label().unwrap();
        assert_eq!(
            (label.function.as_str(), frames.first_own()),
            ("malloc_wrapper_of::app", Some(0))
        );
        assert!(std::ptr::eq(label, copy.label().unwrap()), "copies share it");
        assert_eq!(copy.label_words(), Some("malloc_wrapper_of::app"));
        let mut changed = copy.clone();
        changed[0].function = "g_malloc".into();
        assert_eq!(changed.label_words(), Some("main"));
        assert_eq!((changed.label(), changed.first_own()), (Some(&frame("main")), Some(1)));
        assert_eq!((copy.first_own(), copy == frames, copy == changed), (Some(0), true, false));
        assert_eq!((Frames::default().label(), Frames::default().first_own()), (None, None));
    }
}
