"""The two estimators: signature, documentation, constraints. No numerics."""

from numbers import Integral

from sklearn.utils._param_validation import StrOptions

from ._base import BaseVDL
from .decoders import LinearDecoder, MLPDecoder

__all__ = ["VDL", "VDLNL", "NonLinearVDL", "VarianceDictionaryLearning"]

_SHARED_PARAMETERS = """lam : float, default=0.005
        Weight of the l1 norm of the codes: more of it, more zeros. For data with a standard
        deviation near 1, from 0.001 (few zeros) to 0.02 (nine in ten). The same lasso in
        scikit-learn has ``alpha = lam * n_features / 2``.

    beta : float, default={beta}
        Weight of the variance hinge, for ``regularizer="variance"``, per `batch_size` rows.

    gamma : float, default={gamma}
        Weight of the distance between codes and the encoder's prediction while learning.

    variance_threshold : float, default=0.5
        Standard deviation over a batch that the hinge asks of every code component.

    regularizer : {{"variance", "unit_norm", "weight_decay"}} or None, default="variance"
        What keeps the codes from collapsing: the variance hinge, columns of unit norm in every
        layer, weight decay on the decoder, or nothing.

    weight_decay : float, default=5e-4
        Strength of the decay, for ``regularizer="weight_decay"``.

    encoder : {{"lista"}} or None, default="lista"
        Network that learns to predict the codes. Without one, codes come from FISTA.

    positive_code : bool, default=True
        Whether codes are non-negative.

    transform_method : {{"encoder", "fista"}}, default="encoder"
        How `transform` computes codes: the encoder's prediction, or the minimum of the energy
        of each row. Without an encoder always the latter.

    transform_tol : float, default={transform_tol}
        When ``transform_method="fista"`` stops: {transform_stop}.

    transform_max_iter : int, default=2000
        Iterations at most, for ``transform_method="fista"``.

    sparse_output : bool, default=False
        Whether `transform` returns a CSR matrix.

    max_iter : int or "auto", default="auto"
        Epochs at most. "auto": as many as make 3000 steps, between {least} and 300.

    batch_size : int, default={batch_size}
        Rows of a batch, whose components' spread the hinge looks at.

    learning_rate : {{"cosine", "constant"}}, default="cosine"
        Whether both learning rates decay to zero over the epochs.

    learning_rate_init : float, default={rate}
        Initial learning rate of the decoder.

    encoder_learning_rate_init : float, default={encoder_rate}
        Initial learning rate of the encoder.

    halve_every : int, default=None
        Epochs after which the decoder's rate is halved, again and again.

    decoder_bias_decay : float, default={bias_decay}
        Weight decay of the decoder's biases, where it has any.

    encoder_bias_decay : float, default=0.0
        Weight decay of the encoder's bias.

    inference_max_iter : int, default=200
        FISTA iterations at most.

    inference_tol : float, default=1e-3
        Relative change of a code at which FISTA stops.

    step_size : float, "auto" or "adaptive", default="auto"
        Step of FISTA. "auto" takes it from the curvature and never lets the energy rise; with
        "adaptive" it grows in `fit` of a network as in `transform`; a number gives plain FISTA.

    compile : bool, default=False
        Whether to fuse FISTA's iterations in `fit` with ``torch.compile``, for a linear decoder
        with variance hinge. Takes up to a minute, and did not pay on the CPUs tried.

    early_stopping : bool, default=False
        Whether to set rows aside, judge epochs by their energy and keep the best one.

    validation_fraction : float, default=0.1
        Share of rows to set aside, for ``early_stopping=True``.

    n_iter_no_change : int or None, default=None
        Epochs without an improvement of `tol`, of the validation energy where there is one and
        of the training energy elsewhere, after which to stop. None never stops early.

    tol : float, default=1e-4
        Relative improvement of the energy that counts.

    revive_dead : bool, default=False
        Whether components that no row of an epoch used start anew, from rows that are
        reconstructed badly.

    warm_start : bool, default=False
        Whether `fit` goes on from where the last one ended.

    shuffle : bool, default=True
        Whether each epoch sees the rows in a new order.

    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, shuffling and the validation split.

    device : {{"auto", "cpu", "cuda", "mps"}}, default="auto"
        Where to compute; "auto" takes the best device present.

    verbose : int, default=0
        Whether to show a progress bar."""

_SHARED_ATTRIBUTES = """decoder_ : torch.nn.Module
        The decoder.

    encoder_ : torch.nn.Module or None
        The encoder.

    n_iter_ : int
        Epochs run.

    n_steps_ : int
        Batches learnt from.

    loss_curve_ : list of float
        Mean energy of each epoch's rows.

    validation_curve_ : list of float or None
        Mean energy of the validation rows after each epoch.

    history_ : dict of list
        Energy, its four terms (unweighted), sparsity and dead components of each epoch.

    n_dead_components_ : int
        Components that no row of the last epoch used.

    device_ : str
        Where the weights are.

    n_features_in_ : int
        Features seen in fit.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where `X` had some."""


def _fill_doc(**defaults):
    """Write the documentation both classes share into the places left for it."""

    def fill(cls):
        cls.__doc__ = cls.__doc__.replace(
            "%(parameters)s", _SHARED_PARAMETERS.format(**defaults)
        ).replace("%(attributes)s", _SHARED_ATTRIBUTES)
        return cls

    return fill


@_fill_doc(
    transform_tol="1e-5",
    transform_stop="at this duality gap relative to the energy",
    least=14,
    beta="10.0",
    gamma="5.0",
    batch_size=250,
    rate="5e-3",
    encoder_rate="5e-4",
    bias_decay="0.0",
)
class VarianceDictionaryLearning(BaseVDL):
    """Sparse coding with a linear decoder whose codes are kept from collapsing.

    Learns a dictionary and non-negative sparse codes that minimise, over batches,
    ``1/d ||x - W z||^2 + lam ||z||_1`` for each row plus a hinge that asks every code component
    for a standard deviation of `variance_threshold` at least. That replaces the usual bound on
    the atoms' norms. A small network (LISTA) learns to predict the codes at the same time.

    Parameters
    ----------
    n_components : int, default=128
        Length of a code, the number of atoms.

    init : {"data", "random"}, default="data"
        Where learning starts: atoms at samples drawn from the data and the encoder at ISTA on
        them, or all weights at random.

    %(parameters)s

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The atoms.

    %(attributes)s

    See Also
    --------
    NonLinearVDL : The same with a multi-layer decoder.
    sklearn.decomposition.DictionaryLearning : Dictionary learning with bounded atoms.

    References
    ----------
    K. Evtimova and Y. LeCun, "Sparse coding with multi-layer decoders using variance
    regularization", TMLR 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VarianceDictionaryLearning
    >>> X = load_digits().data / 16
    >>> vdl = VarianceDictionaryLearning(32, max_iter=50, random_state=0).fit(X)
    >>> codes = vdl.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> vdl.score(X) > 0.5
    True
    """

    _parameter_constraints = {
        **BaseVDL._parameter_constraints,
        "init": [StrOptions({"data", "random"})],
    }
    _auto_epochs = (14, 300)

    def __init__(
        self,
        n_components=128,
        *,
        init="data",
        lam=0.005,
        beta=10.0,
        gamma=5.0,
        variance_threshold=0.5,
        regularizer="variance",
        weight_decay=5e-4,
        encoder="lista",
        positive_code=True,
        transform_method="encoder",
        transform_tol=1e-5,
        transform_max_iter=2000,
        sparse_output=False,
        max_iter="auto",
        batch_size=250,
        learning_rate="cosine",
        learning_rate_init=5e-3,
        encoder_learning_rate_init=5e-4,
        halve_every=None,
        decoder_bias_decay=0.0,
        encoder_bias_decay=0.0,
        inference_max_iter=200,
        inference_tol=1e-3,
        step_size="auto",
        compile=False,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        tol=1e-4,
        revive_dead=False,
        warm_start=False,
        shuffle=True,
        random_state=None,
        device="auto",
        verbose=0,
    ):
        self.n_components = n_components
        self.init = init
        self.lam = lam
        self.beta = beta
        self.gamma = gamma
        self.variance_threshold = variance_threshold
        self.regularizer = regularizer
        self.weight_decay = weight_decay
        self.encoder = encoder
        self.positive_code = positive_code
        self.transform_method = transform_method
        self.transform_tol = transform_tol
        self.transform_max_iter = transform_max_iter
        self.sparse_output = sparse_output
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.encoder_learning_rate_init = encoder_learning_rate_init
        self.halve_every = halve_every
        self.decoder_bias_decay = decoder_bias_decay
        self.encoder_bias_decay = encoder_bias_decay
        self.inference_max_iter = inference_max_iter
        self.inference_tol = inference_tol
        self.step_size = step_size
        self.compile = compile
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.revive_dead = revive_dead
        self.warm_start = warm_start
        self.shuffle = shuffle
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def components_(self):
        """Atoms of the fitted dictionary, one a row.

        Returns
        -------
        ndarray of shape (n_components, n_features)
            A copy of the decoder's weights.
        """
        return self.decoder_.atoms().cpu().numpy()

    def duality_gap(self, X):
        """How far the codes of data can be from exact.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        gap : ndarray or torch.Tensor of shape (n_samples,)
            By what share of itself the energy of the codes that `transform` computes can exceed
            the minimum at most. Large for codes of the encoder, at most `transform_tol` for
            ``transform_method="fista"`` if that converged.
        """
        return self._gaps(X)

    def _make_decoder(self, X, generator):
        shape = (self.n_components, X.shape[1])
        return LinearDecoder(*shape, generator=generator, dtype=X.dtype)

    def _initialise(self, learner, X, generator):
        if self.init == "random":
            return
        learner.decoder.start_from(X, generator)
        learner.regularizer.after_step(learner.decoder)
        if learner.encoder is not None:
            learner.encoder.imitate(learner.decoder, self.lam, X[: self.batch_size])


@_fill_doc(
    transform_tol="1e-3",
    transform_stop="where a step moves a code by this share of its norm",
    least=22,
    beta="5.0",
    gamma="100.0",
    batch_size=125,
    rate="3e-3",
    encoder_rate="1e-3",
    bias_decay="1e-3",
)
class NonLinearVDL(BaseVDL):
    """Sparse coding with a multi-layer decoder whose codes are kept from collapsing.

    As :class:`VarianceDictionaryLearning`, with a network with relu hidden layers in the place
    of the dictionary, which bounding the atoms' norms does not carry over to.

    Parameters
    ----------
    n_components : int, default=128
        Length of a code.

    hidden_layer_sizes : tuple of int, default=(1024,)
        Width of each hidden layer of the decoder, from the code outwards.

    %(parameters)s

    Attributes
    ----------
    %(attributes)s

    See Also
    --------
    VarianceDictionaryLearning : The same with a linear decoder.

    References
    ----------
    K. Evtimova and Y. LeCun, "Sparse coding with multi-layer decoders using variance
    regularization", TMLR 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import NonLinearVDL
    >>> X = load_digits().data / 16
    >>> vdl = NonLinearVDL(32, hidden_layer_sizes=(64,), max_iter=50, random_state=0).fit(X)
    >>> codes = vdl.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> vdl.score(X) > 0.5
    True
    """

    _parameter_constraints = {
        **BaseVDL._parameter_constraints,
        "hidden_layer_sizes": ["array-like"],
    }
    _auto_epochs = (22, 300)

    def __init__(
        self,
        n_components=128,
        *,
        hidden_layer_sizes=(1024,),
        lam=0.005,
        beta=5.0,
        gamma=100.0,
        variance_threshold=0.5,
        regularizer="variance",
        weight_decay=5e-4,
        encoder="lista",
        positive_code=True,
        transform_method="encoder",
        transform_tol=1e-3,
        transform_max_iter=2000,
        sparse_output=False,
        max_iter="auto",
        batch_size=125,
        learning_rate="cosine",
        learning_rate_init=3e-3,
        encoder_learning_rate_init=1e-3,
        halve_every=None,
        decoder_bias_decay=1e-3,
        encoder_bias_decay=0.0,
        inference_max_iter=200,
        inference_tol=1e-3,
        step_size="auto",
        compile=False,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        tol=1e-4,
        revive_dead=False,
        warm_start=False,
        shuffle=True,
        random_state=None,
        device="auto",
        verbose=0,
    ):
        self.n_components = n_components
        self.hidden_layer_sizes = hidden_layer_sizes
        self.lam = lam
        self.beta = beta
        self.gamma = gamma
        self.variance_threshold = variance_threshold
        self.regularizer = regularizer
        self.weight_decay = weight_decay
        self.encoder = encoder
        self.positive_code = positive_code
        self.transform_method = transform_method
        self.transform_tol = transform_tol
        self.transform_max_iter = transform_max_iter
        self.sparse_output = sparse_output
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.encoder_learning_rate_init = encoder_learning_rate_init
        self.halve_every = halve_every
        self.decoder_bias_decay = decoder_bias_decay
        self.encoder_bias_decay = encoder_bias_decay
        self.inference_max_iter = inference_max_iter
        self.inference_tol = inference_tol
        self.step_size = step_size
        self.compile = compile
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.revive_dead = revive_dead
        self.warm_start = warm_start
        self.shuffle = shuffle
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _make_decoder(self, X, generator):
        sizes = self.hidden_layer_sizes
        if not len(sizes) or not all(isinstance(s, Integral) and s > 0 for s in sizes):
            raise ValueError(
                f"hidden_layer_sizes={sizes!r} must hold the width of at least one hidden layer, "
                "positive integers; use VarianceDictionaryLearning for a decoder without any."
            )
        shape = (self.n_components, sizes, X.shape[1])
        return MLPDecoder(*shape, generator=generator, dtype=X.dtype)


VDL = VarianceDictionaryLearning
VDLNL = NonLinearVDL
