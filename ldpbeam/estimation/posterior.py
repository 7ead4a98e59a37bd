"""Kernels of a Gaussian posterior whose precision is A + λ·P + weak: plain loops, rows from first to last.

No linear algebra of a library: what that gives in the last bits depends on how many threads it has, and an
epoch's result must not. Inner loops run along rows and add in one order, so they fit vector registers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel


@kernel
def gram(rows: Any, weights: Any, total: Any) -> None:
    """Add Σ weight · row rowᵀ to a symmetric matrix."""
    d = rows.shape[1]
    for cell in range(rows.shape[0]):
        for i in range(d):
            factor = weights[cell] * rows[cell, i]
            for j in range(i + 1):
                total[i, j] += factor * rows[cell, j]
    for i in range(d):
        for j in range(i):
            total[j, i] = total[i, j]


@kernel
def weighted_sum(rows: Any, weights: Any, total: Any) -> None:
    """Add Σ weight · row."""
    for cell in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            total[i] += weights[cell] * rows[cell, i]


@kernel
def eliminate(matrix: Any, vector: Any, first: Any) -> Any:
    """Take the first unknowns out of a positive definite system: what is left stands in the other rows."""
    d, log_determinant, square = vector.size, 0.0, 0.0
    for j in range(first):
        pivot = matrix[j, j]
        log_determinant += math.log(pivot)
        square += vector[j] * vector[j] / pivot
        for i in range(j + 1, d):
            factor = matrix[i, j] / pivot
            vector[i] -= factor * vector[j]
            for other in range(j + 1, d):
                matrix[i, other] -= factor * matrix[j, other]
    return log_determinant, square


@kernel
def tridiagonal(matrix: Any, vector: Any, diagonal: Any, beside: Any) -> None:
    """Rotate a symmetric matrix into a tridiagonal one, and a vector with it (Householder, 1958)."""
    d = vector.size
    mirror, image = diagonal.copy(), diagonal.copy()
    for step in range(d - 2):
        square = 0.0
        for i in range(step + 1, d):
            mirror[i] = matrix[step, i]
            square += mirror[i] * mirror[i]
        beside[step] = mirror[step + 1]
        if square == mirror[step + 1] * mirror[step + 1]:
            continue  # it has that form already
        beside[step] = -math.copysign(math.sqrt(square), mirror[step + 1])
        scale = 1.0 / (square - beside[step] * mirror[step + 1])
        mirror[step + 1] -= beside[step]
        image[:] = 0.0
        along = 0.0
        for i in range(step + 1, d):
            along += mirror[i] * vector[i]
            for j in range(step + 1, d):
                image[j] += scale * mirror[i] * matrix[i, j]
        both = 0.0
        for i in range(step + 1, d):
            both += mirror[i] * image[i]
            vector[i] -= scale * along * mirror[i]
        for i in range(step + 1, d):
            image[i] -= 0.5 * scale * both * mirror[i]
        for i in range(step + 1, d):
            for j in range(step + 1, d):
                matrix[i, j] -= mirror[i] * image[j] + image[i] * mirror[j]
    if d > 1:
        beside[d - 2] = matrix[d - 2, d - 1]
    for i in range(d):
        diagonal[i] = matrix[i, i]


@kernel
def log_likelihoods(diagonal: Any, beside: Any, vector: Any, scales: Any, result: Any) -> None:
    """½ bᵀ(T + λ)⁻¹b + ½ d·ln λ − ½ ln|T + λ| for each λ, of a tridiagonal T."""
    for s in range(scales.size):
        pivot, carried, total = 1.0, 0.0, 0.0
        for i in range(vector.size):
            factor = beside[i - 1] / pivot if i else 0.0
            below = diagonal[i] + scales[s] - (factor * beside[i - 1] if i else 0.0)
            carried = vector[i] - factor * carried
            pivot = below
            total += carried * carried / pivot - math.log(pivot / scales[s])
        result[s] = 0.5 * total


@kernel
def inverse_root(matrix: Any, root: Any) -> None:
    """R, upper triangular, with R Rᵀ = matrix⁻¹ of a positive definite matrix."""
    d = matrix.shape[0]
    for j in range(d):  # Cholesky: matrix = Uᵀ U, row by row
        pivot = math.sqrt(matrix[j, j])
        for i in range(j, d):
            matrix[j, i] /= pivot
        for i in range(j + 1, d):
            factor = matrix[j, i]
            for other in range(i, d):
                matrix[i, other] -= factor * matrix[j, other]
    for i in range(d - 1, -1, -1):
        root[i, i] = 1.0
        for j in range(i + 1, d):
            for other in range(j, d):
                root[i, other] -= matrix[i, j] * root[j, other]
        for other in range(i, d):
            root[i, other] /= matrix[i, i]


@kernel
def outer(root: Any) -> Any:
    """R Rᵀ, float64 (d, d), of an upper triangular R."""
    d = root.shape[0]
    turned, product = root.T.copy(), np.zeros((d, d))
    for i in range(d):
        for inner in range(i, d):
            for j in range(inner + 1):
                product[i, j] += root[i, inner] * turned[inner, j]
    return product


@kernel
def applied(root: Any, vector: Any, result: Any) -> None:
    """R Rᵀ vector, of an upper triangular R."""
    d = vector.size
    inner = result.copy()
    inner[:] = 0.0
    for i in range(d):
        for j in range(i, d):
            inner[j] += root[i, j] * vector[i]
    for i in range(d):
        total = 0.0
        for j in range(i, d):
            total += root[i, j] * inner[j]
        result[i] = total


@kernel
def squares(rows: Any, matrix: Any, result: Any) -> None:
    """Row by row, row · matrix · row."""
    d = matrix.shape[0]
    image = matrix[0].copy()
    for t in range(rows.shape[0]):
        image[:] = 0.0
        for i in range(d):
            for j in range(d):
                image[j] += rows[t, i] * matrix[i, j]
        total = 0.0
        for i in range(d):
            total += rows[t, i] * image[i]
        result[t] = total
